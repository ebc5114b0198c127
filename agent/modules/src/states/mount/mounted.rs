//! `mount.mounted`.

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{Mounted, listed, options, persisted};
use crate::exec::mount::fstab::{self, Entry, Writing};
use crate::exec::mount::{self, Wanted, option_list};

/// The arguments of the state, and the current mount.
struct Job<'a> {
    cx: &'a Exec,
    args: &'a Mounted,
    name: String,
    /// The mount point with symlinks resolved.
    place: String,
    opts: Vec<String>,
    /// The device as the kernel's list names it.
    device: String,
    /// The entry of the current mount in the kernel's list.
    active: Option<Value>,
    /// True to store the options of this mount for the next run.
    remember: bool,
}

pub(super) fn mounted(cx: &Exec, args: Mounted) -> Result<Ret, Error> {
    for (given, what) in [
        (&args.name, "name"),
        (&args.device, "device"),
        (&args.fstype, "fstype"),
    ] {
        if given.is_empty() {
            return Err(format!("Must provide {what} to mount.mounted").into());
        }
    }
    let mut job = Job::prepare(cx, &args)?;
    let mut ret = Ret::ok("");
    if job.active.is_some()
        && args.mount
        && let Some(done) = job.check_active(&mut ret)?
    {
        return Ok(done);
    }
    if job.active.is_none()
        && let Some(done) = job.absent(&mut ret)?
    {
        return Ok(done);
    }
    if args.persist {
        job.persist(ret)
    } else {
        Ok(ret)
    }
}

impl<'a> Job<'a> {
    fn prepare(cx: &'a Exec, args: &'a Mounted) -> Result<Self, Error> {
        let name = if args.name == "/" {
            &args.name
        } else {
            args.name.trim_end_matches('/')
        }
        .to_owned();
        let place = path::realpath(&name);
        let mut all = mount::extended(cx)?;
        let mut opts = option_list(&args.opts);
        let mut active = all.remove(&listed(&place));
        let device = if args.device.starts_with('/')
            && opts.iter().any(|option| option == "bind")
            && active.is_some()
        {
            bound(args, &mut opts, &mut active, &all)
        } else {
            device_of(cx, &args.device)?
        };
        Ok(Self {
            cx,
            args,
            name,
            place,
            opts,
            device,
            active,
            remember: false,
        })
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            name: &self.name,
            device: Some(&self.args.device),
            mkmnt: self.args.mkmnt,
            fstype: &self.args.fstype,
            opts: self.opts.clone(),
            user: self.args.user.as_deref(),
        }
    }

    /// Returns all names of the mounted device.
    fn devices(&self) -> Vec<String> {
        let entry = self.active.clone().unwrap_or_default();
        let of = |key: &str| {
            entry
                .get(key)
                .filter(|value| value.is_true())
                .map(Value::to_text)
        };
        let device = of("device").unwrap_or_default();
        let mut names = vec![device.clone(), path::realpath(&device)];
        for name in ["alt_device", "device_uuid", "device_label"]
            .into_iter()
            .filter_map(of)
        {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Checks the options and the device of an existing mount, and mounts it again if they differ.
    fn check_active(&mut self, ret: &mut Ret) -> Result<Option<Ret>, Error> {
        let entry = self.active.clone().unwrap_or_default();
        let mut changed = options::changed(self.args, &self.opts, &entry);
        changed.sort_unstable();
        if let Some(done) = self.remounted(&changed, ret)? {
            return Ok(Some(done));
        }
        match mount::cached_options(self.cx, &self.place)? {
            Some(cached) => {
                let gone: Vec<String> = cached
                    .into_iter()
                    .filter(|option| !self.opts.contains(option))
                    .collect();
                if let Some(done) = self.remounted(&gone, ret)? {
                    return Ok(Some(done));
                }
            }
            None => self.remember = true,
        }
        let devices = self.devices();
        if devices.contains(&self.device) {
            ret.comment = "Target was already mounted".to_owned();
            return Ok(None);
        }
        self.other_device(&devices, ret)
    }

    /// Mounts the file system again if options have changed.
    fn remounted(&mut self, changed: &[String], ret: &mut Ret) -> Result<Option<Ret>, Error> {
        if changed.is_empty() {
            return Ok(None);
        }
        let changed = changed.join(",");
        let would = Ret::would(format!(
            "Remount would be forced because options ({changed}) changed"
        ));
        let mut change = String::new();
        let again = ["nfs", "cvfs"].contains(&self.args.fstype.as_str())
            || self.args.fstype.starts_with("fuse");
        let mut wanted = self.wanted();
        wanted.name = &self.place;
        let done = self.cx.apply(would, || {
            let done = if again {
                change = format!("Forced unmount and mount because options ({changed}) changed");
                let mut unmounted = mount::unmount(self.cx, &self.place, None, None, false)?;
                if unmounted.is_err() {
                    change = format!(
                        "Forced a lazy unmount and mount because the previous unmount failed and because the options \
                         ({changed}) changed"
                    );
                    unmounted = mount::unmount(self.cx, &self.place, None, None, true)?;
                }
                match unmounted {
                    Ok(()) => wanted.mount(self.cx)?,
                    Err(said) => Err(format!("Unable to unmount {}: {said}.", self.place)),
                }
            } else {
                change = format!("Forced remount because options ({changed}) changed");
                wanted.remount(self.cx)?
            };
            Ok(done.map_or_else(Ret::failed, |()| Ret::ok("")))
        })?;
        if self.cx.test {
            return Ok(Some(done));
        }
        *ret = std::mem::take(ret).change("umount", change);
        self.remember = true;
        Ok((done.result == Some(false)).then(|| Ret {
            changes: ret.changes.clone(),
            ..done
        }))
    }

    /// Handles an existing mount of another device: unmounts it, unless the device is accepted.
    fn other_device(&mut self, devices: &[String], ret: &mut Ret) -> Result<Option<Ret>, Error> {
        let device = &self.args.device;
        for regex in self.args.device_name_regex.iter().flatten() {
            let regex =
                value::pyre::Regex::new(&format!("^(?:{regex})"), value::pyre::Flags::default())?;
            for known in devices {
                if regex.is_match(known)? {
                    ret.comment = format!(
                        "An umount will not be forced because device matched device_name_regex: {known}"
                    );
                    return Ok(None);
                }
            }
        }
        let would = Ret::would(format!(
            "An umount would have been forced because devices do not match.  Watched: {device}"
        ));
        let done = self.cx.apply(would, || {
            let done =
                mount::unmount(self.cx, &self.place, None, self.args.user.as_deref(), false)?;
            Ok(done.map_or_else(
                |said| Ret::failed(format!("Unable to unmount: {said}")),
                |()| Ret::ok(""),
            ))
        })?;
        if self.cx.test {
            *ret = done;
            return Ok(None);
        }
        let also = if self.device == *device {
            String::new()
        } else {
            format!(" ({})", self.device)
        };
        let change = format!(
            "Forced unmount because devices don't match. Wanted: {device}{also}, current: {}",
            devices.join(", ")
        );
        *ret = std::mem::take(ret).change("umount", change);
        if done.result == Some(false) {
            return Ok(Some(Ret {
                changes: ret.changes.clone(),
                ..done
            }));
        }
        self.active = mount::extended(self.cx)?.remove(&listed(&self.place));
        self.remember = true;
        Ok(None)
    }

    /// Handles a mount point at which nothing is mounted.
    fn absent(&mut self, ret: &mut Ret) -> Result<Option<Ret>, Error> {
        let (name, mkmnt) = (&self.name, self.args.mkmnt);
        let there = path::exists(name);
        if !self.args.mount {
            return self.not_mounted(there, ret).map(|()| None);
        }
        let would = Ret::would(match (there, mkmnt) {
            (true, _) => format!("{name} would be mounted"),
            (false, true) => format!("{name} would be created and mounted"),
            (false, false) => format!("{name} does not exist and would not be created"),
        });
        let done = self.cx.apply(would, || {
            if !there && !mkmnt {
                return Ok(Ret::failed("Mount directory is not present"));
            }
            let done = self.wanted().mount(self.cx)?;
            let is_there = mount::extended(self.cx)?.contains(&listed(&self.place));
            Ok(match done {
                Err(said) => Ret::failed(said),
                Ok(()) if is_there => {
                    Ret::ok("Target was successfully mounted").change("mount", true)
                }
                Ok(()) => Ret::ok(""),
            })
        })?;
        self.remember = true;
        if done.result != Some(true) {
            return Ok(Some(Ret {
                changes: ret.changes.clone(),
                ..done
            }));
        }
        ret.comment = done.comment;
        if done.changes.is_true() {
            *ret = std::mem::take(ret).change("mount", true);
        }
        Ok(None)
    }

    /// Handles a file system that need not be mounted now.
    fn not_mounted(&self, there: bool, ret: &mut Ret) -> Result<(), Error> {
        let (name, mkmnt, test) = (&self.name, self.args.mkmnt, self.cx.test);
        ret.comment = match (there, test) {
            (true, true) => format!("{name} would not be mounted"),
            (true, false) => format!("{name} not mounted"),
            (false, true) if mkmnt => format!("{name} would be created, but not mounted"),
            (false, true) => {
                format!("{name} does not exist and would neither be created nor mounted")
            }
            (false, false) if mkmnt => format!("{name} was created, not mounted"),
            (false, false) => format!("{name} not present and not mounted"),
        };
        if !there && test {
            ret.result = None;
        }
        if !there && mkmnt {
            self.cx.apply(Ret::default(), || {
                let folder = std::path::Path::new(name);
                fs::mkdir(self.cx, folder).map_err(Error::io(folder))?;
                Ok(Ret::default())
            })?;
        }
        Ok(())
    }

    fn persist(&self, mut ret: Ret) -> Result<Ret, Error> {
        let opts = Value::list(
            self.opts
                .iter()
                .filter(|option| *option != "remount")
                .map(Value::from),
        );
        let (args, name) = (self.args, &self.name);
        let entry = Entry::new(
            &listed(name),
            &args.device,
            &args.fstype,
            &opts,
            &args.dump,
            &args.pass_num,
        );
        let mut how = Writing {
            config: &args.config,
            match_on: &args.match_on,
            not_change: false,
            test: true,
        };
        if self.cx.test {
            let done = fstab::set(self.cx, &entry, &how)?;
            let comment = match (done, args.mount) {
                ("present", _) => return Ok(ret),
                ("new", true) => {
                    format!(
                        "{name} is mounted, but needs to be written to the fstab in order to be made persistent."
                    )
                }
                ("new", false) => format!(
                    "{name} needs to be written to the fstab in order to be made persistent."
                ),
                (_, true) => format!("{name} is mounted, but its fstab entry must be updated."),
                (_, false) => format!("The {name} fstab entry must be updated."),
            };
            ret.comment = format!("{}. {comment}", ret.comment);
            return self.cx.apply(ret, || Ok(Ret::default()));
        }
        how.test = false;
        self.cx.apply(Ret::default(), || {
            let done = match fstab::set(self.cx, &entry, &how) {
                Ok(done) => done,
                // The changes of the mount are reported even if writing the table fails.
                Err(error) => {
                    return Ok(Ret {
                        changes: ret.changes,
                        ..Ret::failed(error.to_string())
                    });
                }
            };
            if self.remember {
                let kept = Map::new()
                    .with("device", args.device.as_str())
                    .with("fstype", args.fstype.as_str())
                    .with("mkmnt", args.mkmnt)
                    .with("opts", opts.clone());
                mount::remember(self.cx, &self.place, kept)?;
            }
            Ok(persisted(ret, done))
        })
    }
}

/// Returns the device of a bind mount, and adds the options of the file system that it shows.
fn bound(args: &Mounted, opts: &mut Vec<String>, active: &mut Option<Value>, all: &Map) -> String {
    let at = active
        .clone()
        .unwrap_or_default()
        .get("device")
        .map(Value::to_text)
        .unwrap_or_default();
    let mut folder = args.device.clone();
    let mut shows = all.get(&listed(&folder));
    if at.starts_with('/') {
        while shows.is_none() && folder != "/" {
            folder = path::dirname(&folder).to_owned();
            shows = all.get(&listed(&folder));
        }
    }
    if let Some(options) = active
        .as_mut()
        .and_then(Value::as_map_mut)
        .and_then(|entry| entry.get_mut("opts"))
    {
        let list = options.as_list_mut();
        list.map(|list| list.push("bind".into()))
            .unwrap_or_default();
    }
    let Some(shows) = shows else {
        return at;
    };
    if args.bind_mount_copy_active_opts {
        for key in ["opts", "superopts"] {
            opts.extend(shows.get(key).map(option_list).unwrap_or_default());
        }
        opts.sort_unstable();
        opts.dedup();
    }
    if at.starts_with('/') {
        shows.get("device").map(Value::to_text).unwrap_or(at)
    } else {
        at
    }
}

/// Returns the device as the kernel's list names it.
fn device_of(cx: &Exec, device: &str) -> Result<String, Error> {
    let (upper, value) = (
        device.to_uppercase(),
        device.split('=').nth(1).unwrap_or_default(),
    );
    if upper.starts_with("UUID=") {
        return Ok(value.trim_matches('"').to_lowercase());
    }
    if upper.starts_with("LABEL=") {
        let asked = Map::new().with("token", format!("LABEL={value}"));
        let found = cx.call_internal("disk.blkid", Vec::new(), asked)?;
        let first = found
            .as_map()
            .and_then(Map::first)
            .map(|(device, _)| device.to_text());
        return first.ok_or_else(|| format!("Unable to find device with label {value}.").into());
    }
    if let Some(mapper) = volume(device).filter(|mapper| path::exists(mapper)) {
        return Ok(mapper);
    }
    // For `sshfs#host:` the kernel's list contains the part after `#`.
    if let Some((kind, host)) = device.split_once('#')
        && !kind.is_empty()
        && kind
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Ok(host.to_owned());
    }
    Ok(if device.starts_with('/') {
        path::realpath(device)
    } else {
        device.to_owned()
    })
}

/// Returns the name of a logical volume in the kernel's list.
fn volume(device: &str) -> Option<String> {
    let (group, volume) = device.strip_prefix("/dev/")?.split_once('/')?;
    let plain = !group.is_empty() && !volume.is_empty() && !volume.contains('/');
    plain.then(|| {
        format!(
            "/dev/mapper/{}-{}",
            group.replace('-', "--"),
            volume.replace('-', "--")
        )
    })
}
