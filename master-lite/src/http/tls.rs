//! [`Tls`]: the certificate and the key of a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_rustls::TlsAcceptor;
use futures_rustls::server::TlsStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{ServerConfig, crypto};
use smol::net::TcpStream;

/// The reason why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("Cannot read {path}: {source}")]
    File { path: PathBuf, source: pem::Error },
    /// A file has no certificate.
    #[error("{0} contains no certificate")]
    Empty(PathBuf),
    /// The key does not belong to the certificate, or is of an unknown kind.
    #[error("Cannot use the certificate {path}: {source}")]
    Pair {
        path: PathBuf,
        source: rustls::Error,
    },
}

/// The certificate and the key of a server.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    /// Reads a certificate with its chain, and its private key.
    ///
    /// # Errors
    /// When a file cannot be read, or the key does not belong to the certificate.
    pub(crate) fn read(cert: &Path, key: &Path, chain: Option<&Path>) -> Result<Self, TlsError> {
        let mut all = certificates(cert)?;
        if let Some(chain) = chain {
            all.extend(certificates(chain)?);
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(in_file(key))?;
        let pair = |source| TlsError::Pair {
            path: cert.to_owned(),
            source,
        };
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().map_err(pair)?;
        let config = config.with_no_client_auth();
        let config = config.with_single_cert(all, private).map_err(pair)?;
        Ok(Self(Arc::new(config).into()))
    }

    /// Does the handshake with a peer.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Box<TlsStream<TcpStream>>> {
        // No deadline: the caller has one.
        self.0.accept(stream).await.map(Box::new)
    }
}

fn in_file(path: &Path) -> impl Fn(pem::Error) -> TlsError + '_ {
    |source| TlsError::File {
        path: path.to_owned(),
        source,
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).map_err(in_file(path))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(in_file(path))?;
    match all.is_empty() {
        true => Err(TlsError::Empty(path.to_owned())),
        false => Ok(all),
    }
}
