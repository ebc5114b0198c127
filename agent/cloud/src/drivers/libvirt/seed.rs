//! User data for cloud-init: an image of a CD with the label `cidata`.

use std::path::Path;

use machine::fs::Temporary;
use machine::process::{Process, which};
use state::exec::Exec;

use super::LIBVIRT;
use crate::fault::Fault;

/// The end of the names of images.
pub(super) const END: &str = "seed.iso";
/// The maximum time to write an image, in seconds.
const WRITE_MAX_S: i64 = 60;
/// The programs that write images.
const PROGRAMS: [&str; 3] = ["genisoimage", "mkisofs", "xorrisofs"];

/// An image. It is removed with this value.
pub(super) struct Image {
    file: Temporary,
}

/// Returns the program that writes images.
///
/// # Errors
/// When none is installed.
pub(super) fn program() -> Result<&'static str, Fault> {
    let found = PROGRAMS
        .into_iter()
        .find(|program| which(program).is_some());
    found.ok_or_else(|| {
        Fault::wrong(format!(
            "{LIBVIRT}: user data needs the program genisoimage or xorrisofs (Debian: genisoimage, xorriso), which is not installed: install it, or set deploy to ssh"
        ))
    })
}

impl Image {
    /// Writes an image with user data for a machine.
    ///
    /// # Errors
    /// When no program for it is installed, or it fails.
    pub(super) fn write(
        cx: &Exec,
        name: &str,
        token: &str,
        user_data: &str,
    ) -> Result<Self, Fault> {
        let program = program()?;
        let about = format!("instance-id: {token}\nlocal-hostname: {name}\n");
        let written = |text: &str| Temporary::written("", text.as_bytes(), None);
        let (file, data, about) = (written("")?, written(user_data)?, written(&about)?);
        let graft = |name: &str, file: &Temporary| format!("{name}={}", file.path().display());
        let output = file.path().display().to_string();
        let (data, about) = (graft("user-data", &data), graft("meta-data", &about));
        let words = [
            program,
            "-quiet",
            "-volid",
            "cidata",
            "-joliet",
            "-rock",
            "-graft-points",
            "-output",
            &output,
            &data,
            &about,
        ];
        let process = Process {
            timeout: Some(WRITE_MAX_S.into()),
            ..Process::words(words).quiet()
        };
        process.run(cx)?.stdout_of_success(program)?;
        Ok(Self { file })
    }

    /// Returns the path of the image.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the size of the image in bytes.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn size(&self) -> Result<u64, Fault> {
        let path = self.path();
        let found = path.metadata().map(|found| found.len());
        found.map_err(|error| Fault::wrong(format!("Cannot read {}: {error}", path.display())))
    }
}
