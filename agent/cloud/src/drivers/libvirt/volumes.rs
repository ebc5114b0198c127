//! The volumes of a new domain: copies of disks, and the data for cloud-init.

use state::exec::Exec;

use super::domain::Disk;
use super::seed::Image;
use super::virsh::COPY_MAX;
use super::{LIBVIRT, Libvirt, is_missing, option};
use crate::driver::Wanted;
use crate::fault::Fault;

impl Libvirt {
    /// Returns the path of a volume, if it exists.
    fn path(&self, cx: &Exec, (pool, name): &(String, String)) -> Result<Option<String>, Fault> {
        let words = ["vol-path", &option("pool", pool), &option("vol", name)];
        match self.virsh.run(cx, &words) {
            Ok(path) => Ok(Some(path.trim().to_owned())),
            Err(fault) if is_missing(&fault) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Creates a volume by a command, if it does not exist. Returns its path.
    fn volume(&self, cx: &Exec, own: &(String, String), words: &[String]) -> Result<String, Fault> {
        if let Some(path) = self.path(cx, own)? {
            return Ok(path);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.virsh.fed(cx, &words, None, COPY_MAX)?;
        let lost = || Fault::unanswered(LIBVIRT, &format!("the volume {} is not there", own.1));
        self.path(cx, own)?.ok_or_else(lost)
    }

    /// Copies a disk. A quick copy has the disk below it, and only its own changes.
    pub(super) fn copied(
        &self,
        cx: &Exec,
        disk: &Disk,
        own: &(String, String),
        quick: bool,
    ) -> Result<String, Fault> {
        let (pool, name) = own;
        let path = option("vol", &disk.path);
        if !quick || disk.format != "qcow2" {
            let words = [
                "vol-clone".to_owned(),
                option("pool", pool),
                path,
                option("newname", name),
            ];
            return self.volume(cx, own, &words);
        }
        let about = self.virsh.run(cx, &["vol-info", "--bytes", &path])?;
        let size = about
            .lines()
            .find_map(|line| line.strip_prefix("Capacity:"));
        let size = size.and_then(|size| size.split_whitespace().next());
        let lacks = || Fault::unanswered(LIBVIRT, &format!("{} has no capacity", disk.path));
        let words = [
            "vol-create-as".to_owned(),
            option("pool", pool),
            option("name", name),
            option("capacity", size.ok_or_else(lacks)?),
            option("format", "qcow2"),
            option("backing-vol", &disk.path),
            option("backing-vol-format", "qcow2"),
        ];
        self.volume(cx, own, &words)
    }

    /// Stores user data as a volume. Returns its path.
    pub(super) fn seeded(
        &self,
        cx: &Exec,
        wanted: &Wanted<'_>,
        own: &(String, String),
    ) -> Result<String, Fault> {
        let (pool, name) = own;
        let data = wanted.user_data.unwrap_or_default();
        let image = Image::write(cx, wanted.spec.name.as_str(), wanted.token, data)?;
        let words = [
            "vol-create-as".to_owned(),
            option("pool", pool),
            option("name", name),
            option("capacity", &image.size()?.to_string()),
            option("format", "raw"),
        ];
        let path = self.volume(cx, own, &words)?;
        let file = option("file", &image.path().display().to_string());
        let words = [
            "vol-upload",
            &option("pool", pool),
            &option("vol", name),
            &file,
        ];
        self.virsh.run(cx, &words)?;
        Ok(path)
    }
}
