//! Stores the addresses of the connected minions, so that a master that was killed can recall them
//! after its restart ([`Listener::recall`]). A master that ends in order says goodbye to each
//! minion, and needs none of this.

#![expect(
    clippy::disallowed_methods,
    reason = "without this file minions come back with their next keep-alive; it is written whole and then put in place"
)]

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use link::Listener;
use link::wait::pause;
use value::{log, remove};

/// The name of the file, below `cachedir`.
const FILE: &str = "connected";
/// The interval at which the connected minions are compared with the file.
const LOOK: Duration = Duration::from_secs(5);
/// The number of bytes of the file that are read: the addresses of at least 20,000 minions.
const BYTES_MAX: u64 = 1 << 20;

/// The file of addresses, one per line.
#[derive(Debug)]
pub(crate) struct Connected {
    file: PathBuf,
    addresses: Vec<SocketAddr>,
}

impl Connected {
    /// Reads the addresses that the last master left if it was killed.
    pub(crate) fn open(cachedir: &Path) -> Self {
        let file = cachedir.join(FILE);
        let addresses = read(&file).unwrap_or_else(|error| {
            log::warning(format_args!("cannot read {}: {error}", file.display()));
            Vec::new()
        });
        Self { file, addresses }
    }

    /// Recalls those minions, then keeps the file up to date with the connected ones.
    pub(crate) async fn follow(mut self, listener: &Listener) -> Infallible {
        listener.recall(&self.addresses).await;
        loop {
            pause(LOOK).await;
            let mut now = listener.addresses();
            now.sort_unstable();
            if now != self.addresses {
                self.addresses = now;
                self.write().await;
            }
        }
    }

    async fn write(&self) {
        let (file, addresses) = (self.file.clone(), self.addresses.clone());
        let written = smol::unblock(move || write(&file, &addresses)).await;
        if let Err(error) = written {
            log::warning(format_args!(
                "cannot write {}: {error}",
                self.file.display()
            ));
        }
    }

    /// Removes the file. A master calls this at its end, once it has said goodbye to all minions.
    pub(crate) fn forget(cachedir: &Path) {
        let path = cachedir.join(FILE);
        remove::or_log(&path, fs::remove_file(&path));
    }
}

fn read(file: &Path) -> io::Result<Vec<SocketAddr>> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut text = String::new();
    opened.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn write(file: &Path, addresses: &[SocketAddr]) -> io::Result<()> {
    let lines: String = addresses
        .iter()
        .map(|address| format!("{address}\n"))
        .collect();
    let part = file.with_extension("part");
    let mut new = File::create(&part)?;
    new.write_all(lines.as_bytes())?;
    new.sync_data()?;
    fs::rename(&part, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_no_address_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Connected::open(folder.path()).addresses.is_empty());
        let addresses = ["192.0.2.1:4000", "[2001:db8::1]:4001"].map(|text| text.parse().unwrap());
        let file = folder.path().join(FILE);
        write(&file, &addresses).unwrap();
        assert_eq!(Connected::open(folder.path()).addresses, addresses);
        fs::write(&file, "x\n192.0.2.1:4000\n192.0.2.").unwrap();
        assert_eq!(Connected::open(folder.path()).addresses, addresses[..1]);
        Connected::forget(folder.path());
        assert!(Connected::open(folder.path()).addresses.is_empty());
    }
}
