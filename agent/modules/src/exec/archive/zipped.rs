//! Zip archives: reads their central directory, and runs the programs zip and unzip.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use machine::fs;
use machine::process::Process;
use python::path;
use state::exec::Exec;
use state::module::Error;
use state::umask;
use value::Value;

use super::contents::{Contents, Kind};
use super::{Unpack, check_success, plain_names};

/// An entry of a zip archive's central directory.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) encrypted: bool,
    /// The Unix file type and permissions, or 0 if the archive was not made on Unix.
    mode: u32,
}

/// The maximum size of an archive's central directory, in bytes.
const MAX_DIRECTORY_BYTES: u64 = 64 * 1024 * 1024;

impl Member {
    pub(super) fn kind(&self) -> Kind {
        match self.mode & 0o170_000 {
            0o120_000 => Kind::Link,
            0o040_000 => Kind::Folder,
            _ => Kind::File,
        }
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

fn part(file: &mut File, from: u64, length: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the entries of an archive, in order.
pub(super) fn members(path: &str) -> Result<Vec<Member>, Error> {
    let mut file = fs::open(path)?;
    let mut read = || -> std::io::Result<Option<Vec<Member>>> {
        let Some((start, length)) = directory(&mut file)? else {
            return Ok(None);
        };
        Ok(entries(&part(&mut file, start, length)?))
    };
    read()
        .map_err(Error::io(path))?
        .ok_or_else(|| Error::refused(format!("{path} is not a ZIP file")))
}

/// Returns the offset and the size of the central directory. A record at the end of the file
/// contains them.
fn directory(file: &mut File) -> std::io::Result<Option<(u64, u64)>> {
    let length = file.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(22 + 65_536);
    let tail = part(file, from, length - from)?;
    let Some(at) = tail.windows(4).rposition(|window| window == b"PK\x05\x06") else {
        return Ok(None);
    };
    let (Some(mut size), Some(mut start)) = (number(&tail, at + 12, 4), number(&tail, at + 16, 4))
    else {
        return Ok(None);
    };
    // An archive larger than 4 GB stores the real numbers in a separate record. A locator before
    // this record contains the record's offset.
    let locator = at
        .checked_sub(20)
        .and_then(|at| tail.get(at..))
        .filter(|tail| tail.starts_with(b"PK\x06\x07"));
    if let Some(place) = locator.and_then(|locator| number(locator, 8, 8)) {
        let end = part(file, place, 56)?;
        if let (true, Some(big), Some(at)) = (
            end.starts_with(b"PK\x06\x06"),
            number(&end, 40, 8),
            number(&end, 48, 8),
        ) {
            (size, start) = (big, at);
        }
    } else {
        // Data in front of the archive, such as a self-extractor, shifts the offset of the central
        // directory.
        let end = from + at as u64;
        start = end.saturating_sub(size);
    }
    Ok((size <= MAX_DIRECTORY_BYTES).then_some((start, size)))
}

fn entries(mut bytes: &[u8]) -> Option<Vec<Member>> {
    let mut members = Vec::new();
    while !bytes.is_empty() {
        if !bytes.starts_with(b"PK\x01\x02") {
            return None;
        }
        let at =
            |at, length| number(bytes, at, length).and_then(|number| usize::try_from(number).ok());
        let (name, extra, comment) = (at(28, 2)?, at(30, 2)?, at(32, 2)?);
        members.push(Member {
            name: String::from_utf8_lossy(bytes.get(46..46 + name)?).into_owned(),
            encrypted: at(8, 2)? & 1 == 1,
            mode: u32::try_from(at(38, 4)? >> 16).ok()?,
        });
        bytes = bytes.get(46 + name + extra + comment..)?;
    }
    Some(members)
}

/// Unpacks an archive over existing files, and returns the names of its members.
pub(crate) fn unzipped(cx: &Exec, job: &Unpack, extract_perms: bool) -> Result<Vec<String>, Error> {
    let mut members = members(&job.file)?;
    members.retain(|member| !job.excludes.contains(&member.name));
    let contents = Contents {
        members: members
            .iter()
            .map(|member| (member.kind(), member.name.clone()))
            .collect(),
    };
    contents.check(&job.dest)?;
    job.unzip(cx, vec!["-o".into(), "-q".into()])?;
    for member in members.iter().filter(|member| member.kind() != Kind::Link) {
        let path = path::join(&job.dest, &member.name);
        let mode = match member.mode & 0o7777 {
            mode if extract_perms && member.mode != 0 => mode,
            _ if member.name.ends_with('/') => 0o777 & !umask::current(),
            _ => 0o666 & !umask::current(),
        };
        fs::chmod(cx, Path::new(&path), mode, false).map_err(Error::io(&path))?;
    }
    Ok(members.into_iter().map(|member| member.name).collect())
}

/// Returns the names that the sources get in an archive. Folders include everything in them.
pub(super) fn to_pack(sources: &[String], cwd: &str) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for source in sources {
        let source = path::join(cwd, source);
        let base = if source.starts_with(cwd) { cwd } else { "/" };
        if !path::isdir(&source) {
            names.extend(path::exists(&source).then(|| path::relpath(&source, base)));
            continue;
        }
        for folder in fs::walk(&source, None)? {
            let inside = path::relpath(&folder.root, base);
            names.push(format!("{inside}/"));
            names.extend(folder.files.iter().map(|name| path::join(&inside, name)));
        }
    }
    Ok(names)
}

/// Creates an archive of these names, in this order.
pub(super) fn zip(
    cx: &Exec,
    zip_file: &str,
    cwd: &str,
    names: &[String],
    runas: &Value,
) -> Result<(), Error> {
    if names.iter().any(|name| name.contains('\n')) {
        return Err("zip does not support file names with line breaks".into());
    }
    let zip_file = path::join(cwd, zip_file);
    // zip would add the files to an existing archive.
    if path::isfile(&zip_file) {
        fs::remove(cx, Path::new(&zip_file)).map_err(Error::io(&zip_file))?;
    }
    let mut process = Process::words(["zip", "-q", zip_file.as_str(), "-@"]);
    process.env = plain_names();
    process.cwd = Some(cwd.to_owned());
    process.runas = runas.as_str().map(str::to_owned);
    process.stdin = Some(names.join("\n"));
    process.stderr = machine::process::Stderr::Merged;
    let done = process.run(cx)?;
    check_success(&done).map_err(|error| {
        Error::refused(format!("Exception encountered creating zipfile: {error}"))
    })?;
    cx.changed(Path::new(&zip_file));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_an_archive_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.zip");
        let mut bytes = b"MZ an unpacker".to_vec();
        let start = bytes.len() as u32;
        bytes.extend(b"PK\x01\x02\x14\x03\x14\x00\x01\x00");
        bytes.extend([0; 18]);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend((0o120_777_u32 << 16).to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(b"l");
        let size = bytes.len() as u32 - start;
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend(size.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend([0, 0]);
        std::fs::write(&file, bytes).unwrap();
        let found = members(&file.display().to_string()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].encrypted, found[0].kind()),
            ("l", true, Kind::Link)
        );
        std::fs::write(&file, "nothing of the kind").unwrap();
        assert!(members(&file.display().to_string()).is_err());
    }

    #[test]
    fn folders_are_packed_with_all_that_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("d/f"), "").unwrap();
        let cwd = folder.path().display().to_string();
        let names = to_pack(&["d".into(), "none".into()], &cwd);
        assert_eq!(names.unwrap(), ["d/", "d/f"]);
    }
}
