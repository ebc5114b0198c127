//! The driver against libvirt itself, whose machines are simulated.

use ::tests::hypervisor::Hypervisor;
use state::exec::Exec;

use super::*;
use crate::spec::Spec;
use crate::testing::{Home, spec_of};

/// A token of a call.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The volume of the disk of the new machine.
const VOLUME: &str = "web1-01234567-vda.qcow2";

fn open(hypervisor: &Hypervisor) -> Libvirt {
    let program = hypervisor.program().display().to_string();
    let url = hypervisor.url();
    Libvirt {
        virsh: Virsh { program, url },
    }
}

fn spec(base: &str) -> Spec {
    let mut spec = spec_of("web1", "mine", "libvirt");
    spec.settings.insert("base_domain", base);
    spec
}

fn wanted(spec: &Spec) -> Wanted<'_> {
    Wanted {
        spec,
        token: TOKEN,
        user_data: None,
    }
}

fn find(driver: &Libvirt, cx: &Exec, name: &str) -> Option<Machine> {
    let all = driver.list(cx).unwrap();
    all.into_iter().find(|machine| machine.name == name)
}

fn volumes(hypervisor: &Hypervisor) -> String {
    hypervisor.virsh(&["vol-list", "default-pool"])
}

#[test]
fn a_machine_is_a_copy_of_the_base_until_it_is_removed() {
    let Some(hypervisor) = Hypervisor::start() else {
        return;
    };
    let (driver, home) = (open(&hypervisor), Home::new());
    let (cx, spec) = (home.cx(), spec("base"));
    let made = driver.create(&cx, &wanted(&spec)).unwrap();
    let machine = find(&driver, &cx, "web1").unwrap();
    assert_eq!(machine.id, made.id);
    assert_eq!(machine.state, "running");
    assert_eq!(machine.token.as_deref(), Some(TOKEN));
    assert_eq!(machine.image, "base");
    assert!(machine.address().is_some(), "{machine:?}");
    assert!(volumes(&hypervisor).contains(VOLUME));
    let (copy, base) = (
        driver.dump(&cx, "web1").unwrap(),
        driver.dump(&cx, "base").unwrap(),
    );
    let mac = |domain: &Element| {
        let interface = domain
            .find("devices")
            .and_then(|devices| devices.find("interface"));
        interface
            .unwrap()
            .find("mac")
            .unwrap()
            .attribute("address")
            .to_owned()
    };
    assert_ne!(mac(&copy), mac(&base));
    assert!(copy.written().contains(&format!("/default-pool/{VOLUME}")));
    // The same call again makes nothing.
    let again = driver.create(&cx, &wanted(&spec)).unwrap();
    assert_eq!(again.id, made.id);
    assert_eq!(driver.list(&cx).unwrap().len(), 3);
    for fun in ["reboot", "stop", "start"] {
        let done = driver.action(&cx, fun, &machine, &Map::new());
        assert!(done.unwrap().is_some(), "{fun}");
    }
    driver.destroy(&cx, &machine).unwrap();
    assert_eq!(find(&driver, &cx, "web1"), None);
    assert!(!volumes(&hypervisor).contains(VOLUME));
    assert!(volumes(&hypervisor).contains("base.qcow2"));
    // One that is gone is removed.
    driver.destroy(&cx, &machine).unwrap();
}

#[test]
fn a_machine_that_was_left_half_made_is_listed_and_finished() {
    let Some(hypervisor) = Hypervisor::start() else {
        return;
    };
    let (driver, home) = (open(&hypervisor), Home::new());
    let (cx, spec) = (home.cx(), spec("base"));
    driver.begin(&cx, &wanted(&spec)).unwrap();
    let left = find(&driver, &cx, "web1").unwrap();
    assert_eq!(
        (left.state.as_str(), left.token.as_deref()),
        ("shutdown", Some(TOKEN))
    );
    // The disk was copied before the call was cut short.
    hypervisor.virsh(&["vol-clone", "--pool=default-pool", "base.qcow2", VOLUME]);
    let done = driver.resume(&cx, &wanted(&spec), left.clone()).unwrap();
    assert_eq!((done.state.as_str(), &done.id), ("running", &left.id));
    let text = driver.dump(&cx, "web1").unwrap().written();
    assert!(text.contains(&format!("/default-pool/{VOLUME}")), "{text}");
    // One that has no disk yet is removed, too.
    driver.destroy(&cx, &done).unwrap();
    let left = driver.begin(&cx, &wanted(&spec)).unwrap();
    driver.destroy(&cx, &left).unwrap();
    assert_eq!(find(&driver, &cx, "web1"), None);
}

#[test]
fn a_quick_copy_has_only_its_own_changes() {
    let Some(hypervisor) = Hypervisor::start() else {
        return;
    };
    let (driver, home) = (open(&hypervisor), Home::new());
    let mut spec = spec("base");
    spec.settings.insert("clone_strategy", "quick");
    driver.create(&home.cx(), &wanted(&spec)).unwrap();
    let about = hypervisor.virsh(&["vol-dumpxml", "--pool=default-pool", VOLUME]);
    assert!(about.contains("<backingStore>"), "{about}");
    assert!(about.contains("/default-pool/base.qcow2"), "{about}");
}

#[test]
fn errors_have_libvirts_text_and_make_nothing() {
    let Some(hypervisor) = Hypervisor::start() else {
        return;
    };
    let (driver, home) = (open(&hypervisor), Home::new());
    let cx = home.cx();
    let error = |spec: &Spec| driver.create(&cx, &wanted(spec)).unwrap_err().to_string();
    let text = error(&spec("nosuch"));
    assert_eq!(
        text,
        "libvirt: virsh domstate: failed to get domain 'nosuch'"
    );
    let text = error(&spec("test"));
    assert!(
        text.contains("the state of the base domain test is running"),
        "{text}"
    );
    let mut wrong = spec("base");
    wrong.settings.insert("clone_strategy", "slow");
    let text = error(&wrong);
    assert_eq!(
        text,
        "web1: 'clone_strategy' must be one of full or quick. Got 'slow'"
    );
    assert_eq!(driver.list(&cx).unwrap().len(), 2);
    let images = driver.offers(&cx, Offer::Images).unwrap();
    assert_eq!(
        images.keys().map(Value::to_text).collect::<Vec<_>>(),
        ["base"]
    );
    let away = Libvirt {
        virsh: Virsh {
            url: "qemu+unix:///system?socket=/nosuch".to_owned(),
            program: driver.virsh.program.clone(),
        },
    };
    let fault = away.list(&cx).unwrap_err();
    assert!(matches!(fault, Fault::Unanswered { .. }), "{fault:?}");
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let driver = Libvirt {
        virsh: Virsh {
            program: "/nosuch/virsh".to_owned(),
            url: "qemu:///system".to_owned(),
        },
    };
    let text = driver.list(&Home::new().cx()).unwrap_err().to_string();
    assert_eq!(
        text,
        "libvirt: the program virsh is not installed (Debian: libvirt-clients)"
    );
}
