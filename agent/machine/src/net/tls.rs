//! TLS for protocols other than HTTP. The trusted certificates are those of [`super::http`].

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::http::{self, Error};

/// Returns the configuration of a client that verifies the certificate of `server`. The trusted
/// certificates are those of the named bundle, else the system's.
///
/// # Errors
/// When the bundle cannot be read, or there are no trusted certificates.
pub fn client(server: &str, bundle: Option<&Path>) -> Result<Arc<ClientConfig>, Error> {
    let trusted = http::trusted(bundle)?;
    let certificates = trusted
        .iter()
        .map(|found| CertificateDer::from(found.der()));
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(Error::NoCertificates(server.to_owned()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.map_err(|source| Error::Failed {
        url: server.to_owned(),
        source: Box::new(ureq::Error::Rustls(source)),
    })?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}
