//! Reads signed messages (CMS, formerly PKCS#7), and checks whether a key made their signature.

use ring::digest::{self, digest};

use crate::Error;
use crate::ber::{Ber, INTEGER, OCTETS, OID, Part, SEQUENCE, SET};
use crate::keys::{Hash, Key};

const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02];
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x03];
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x04];

const HASHES: [(&[u8], Hash); 3] = [
    (
        &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01],
        Hash::Sha256,
    ),
    (
        &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02],
        Hash::Sha384,
    ),
    (
        &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03],
        Hash::Sha512,
    ),
];

/// A message with one signature.
#[derive(Debug)]
pub(crate) struct Signed<'a> {
    /// The signed content; `None` if it is detached from the message.
    pub(crate) content: Option<Vec<u8>>,
    /// The certificates in the message.
    pub(crate) certificates: Vec<&'a [u8]>,
    hash: Hash,
    /// The attributes that the signer added. If there are any, they are signed instead of the
    /// content.
    attributes: Option<Part<'a>>,
    signature: Vec<u8>,
}

impl<'a> Signed<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Error> {
        read(message).ok_or(Error::Form(
            "it is not a CMS message with one SHA-256, SHA-384 or SHA-512 signature",
        ))
    }

    /// Returns whether this key signed the content.
    pub(crate) fn is_by(&self, key: &Key, content: &[u8]) -> bool {
        let Some(attributes) = self.attributes else {
            return key.signed(self.hash, content, &self.signature);
        };
        self.tells(attributes, content).is_some()
            && key.signed(self.hash, &as_set(attributes), &self.signature)
    }

    /// Returns `Some` if the attributes belong to this content.
    fn tells(&self, attributes: Part<'_>, content: &[u8]) -> Option<()> {
        let how = match self.hash {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        };
        let kind = attribute(attributes, CONTENT_TYPE)?.take(OID)?;
        let told = attribute(attributes, MESSAGE_DIGEST)?.take(OCTETS)?;
        (kind.inside == DATA && told.inside == digest(how, content).as_ref()).then_some(())
    }
}

/// Returns the value of an attribute.
fn attribute<'a>(attributes: Part<'a>, name: &[u8]) -> Option<Ber<'a>> {
    attributes.ber().parts().find_map(|part| {
        let mut attribute = part.ber();
        let is_it = attribute.take(OID)?.inside == name;
        is_it.then(|| Some(attribute.take(SET)?.ber()))?
    })
}

/// Returns the bytes of the attributes that are signed. In the message they have a context-specific
/// tag, but the signature is over their encoding as a set.
fn as_set(attributes: Part<'_>) -> Vec<u8> {
    let mut bytes = attributes.whole.to_vec();
    if let Some(tag) = bytes.first_mut() {
        *tag = SET;
    }
    bytes
}

fn read(message: &[u8]) -> Option<Signed<'_>> {
    let mut outer = Ber(message).take(SEQUENCE)?.ber();
    (outer.take(OID)?.inside == SIGNED_DATA).then_some(())?;
    let mut body = outer.take(0xa0)?.ber().take(SEQUENCE)?.ber();
    let _version = body.take(INTEGER)?;
    let _hashes = body.take(SET)?;
    let mut data = body.take(SEQUENCE)?.ber();
    (data.take(OID)?.inside == DATA).then_some(())?;
    let content = match data.take(0xa0) {
        Some(content) => Some(content.ber().next()?.octets()?),
        None => None,
    };
    let certificates = body.take(0xa0).map(|part| part.ber().parts());
    let certificates = certificates.into_iter().flatten();
    let certificates = certificates.map(|part| part.whole).collect();
    let _revoked = body.take(0xa1);
    let mut signers = body.take(SET)?.ber();
    let mut signer = signers.take(SEQUENCE)?.ber();
    signers.0.is_empty().then_some(())?;
    let _version = signer.take(INTEGER)?;
    let _who = signer.next()?;
    let hash = signer.take(SEQUENCE)?.ber().take(OID)?.inside;
    let attributes = signer.take(0xa0);
    let _how = signer.take(SEQUENCE)?;
    Some(Signed {
        content,
        certificates,
        hash: HASHES.iter().find(|(name, _)| *name == hash)?.1,
        attributes,
        signature: signer.next()?.octets()?,
    })
}
