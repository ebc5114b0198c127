//! The driver `openstack` against OpenStack's own services, whose machines are simulated by Nova's driver
//! `fake`. `cargo ci-long openstack` runs it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::program::{Answer, in_recorded_environment, pinch_program};
use tests::scratch::Scratch;
use tests::skip;

use super::House;

/// The variable with the folder of the services' programs.
const PROGRAMS: &str = "PINCH_OPENSTACK";
/// The maximum time until a server has a state.
const STATE_MAX: Duration = Duration::from_secs(240);

/// The services of a cloud. They end with this value.
struct Services {
    child: Child,
    about: Value,
    _folder: Scratch,
}

impl Drop for Services {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Services {
    /// Starts the services; `None` if their programs are not there.
    fn start() -> Option<Self> {
        let Some(programs) = std::env::var_os(PROGRAMS) else {
            skip::leave("PINCH_OPENSTACK does not name the folder of OpenStack's services");
            return None;
        };
        if !Path::new(&programs).join("complete").exists() {
            skip::skip("`openstack_services.sh install` unpacks OpenStack's services");
            return None;
        }
        if !skip::is_root() {
            return None;
        }
        let folder = Scratch::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/cloud/openstack_services.sh");
        let mut child = Command::new(script)
            .arg("serve")
            .arg(folder.path().join("cloud"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let line = output.lines().next().unwrap();
        Some(Self {
            child,
            about: serde_json::from_str(&line.unwrap()).unwrap(),
            _folder: folder,
        })
    }

    fn text(&self, key: &str) -> &str {
        self.about[key].as_str().unwrap()
    }

    /// Returns a machine without a master whose provider `stack` is this cloud, with a password.
    fn house(&self, password: &str) -> House {
        let house = House::new();
        let [url, user, project] = ["auth_url", "username", "project"].map(|key| self.text(key));
        house.write(
            "etc/cloud.providers",
            &format!("stack:\n  driver: openstack\n  auth: {{auth_url: '{url}', username: {user}, password: {password}, project_name: {project}}}\n  wait_for_ip_interval: 0.5\n"),
        );
        let [image, large, flavor, huge, network] =
            ["image", "large_image", "flavor", "huge_flavor", "network"].map(|key| self.text(key));
        house.write(
            "etc/cloud.profiles.d/web.conf",
            &format!("web: {{provider: stack, image: {image}, size: {flavor}, network: {network}, meta: {{team: x}}, deploy: none}}\nunknown: {{extends: web, size: nosuch}}\nsmall: {{extends: web, image: {large}}}\nhuge: {{extends: web, size: {huge}}}\n"),
        );
        house
    }

    /// Runs `salt-cloud` in the network of the services.
    fn cloud(&self, house: &House, words: &[&str]) -> Answer {
        let process = self.child.id().to_string();
        let output = in_recorded_environment(&mut Command::new("nsenter"))
            .args(["--target", &process, "--net"])
            .arg(pinch_program())
            .args(["salt-cloud", "--out=json", "-c"])
            .arg(house.path("etc"))
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let parts = match output.status.success() {
            true => vec![output.stdout],
            false => vec![output.stdout, output.stderr],
        };
        Answer {
            out: String::from_utf8_lossy(&parts.concat()).into_owned(),
            rc: output.status.code(),
        }
    }

    /// Runs `salt-cloud`, which must succeed, and returns the data of the provider, if it is in them.
    fn data(&self, house: &House, words: &[&str]) -> Value {
        let answer = self.cloud(house, words);
        assert_eq!(answer.rc, Some(0), "{words:?}: {}", answer.out);
        let mut data: Value = serde_json::from_str(&answer.out)
            .unwrap_or_else(|error| panic!("{error}: {}", answer.out));
        let own = data.pointer_mut("/stack/openstack").map(Value::take);
        own.unwrap_or(data)
    }

    /// Runs `salt-cloud`, which must fail with this text.
    fn fails(&self, house: &House, words: &[&str], text: &str) {
        let answer = self.cloud(house, words);
        assert_eq!(answer.rc, Some(1), "{words:?}: {}", answer.out);
        assert!(answer.out.contains(text), "{words:?}: {}", answer.out);
    }

    /// Waits until a server has a state.
    fn wait(&self, house: &House, name: &str, state: &str) {
        let since = Instant::now();
        loop {
            let listed = self.data(house, &["-Q"]);
            if listed[name]["state"] == state {
                return;
            }
            assert!(since.elapsed() < STATE_MAX, "{name} {state}: {listed}");
            thread::sleep(Duration::from_millis(500));
        }
    }
}

/// The three lists of what the cloud offers. Nova and Glance answer with pages of one item.
fn offers_are_listed(services: &Services, house: &House) {
    let images = services.data(house, &["--list-images", "stack"]);
    let image = &images[services.text("image")];
    assert_eq!(image["status"], "active", "{images}");
    assert!(
        images.get(services.text("large_image")).is_some(),
        "{images}"
    );
    let sizes = services.data(house, &["--list-sizes", "stack"]);
    assert_eq!(sizes[services.text("flavor")]["ram"], 64, "{sizes}");
    assert!(sizes.get(services.text("huge_flavor")).is_some(), "{sizes}");
    let zones = services.data(house, &["--list-locations", "stack"]);
    assert_eq!(zones["nova"]["zoneState"]["available"], true, "{zones}");
    let networks = services.data(house, &["-f", "list_networks", "stack"]);
    let network = &networks[services.text("network")];
    assert_eq!(network["status"], "ACTIVE", "{networks}");
}

/// Makes `web1` and `web2`, as many servers as the project may have.
fn servers_are_made(services: &Services, house: &House) {
    let made = services.data(house, &["-P", "-p", "web", "web1", "web2"]);
    let images = services.data(house, &["--list-images", "stack"]);
    let image = &images[services.text("image")]["id"];
    for name in ["web1", "web2"] {
        let one = &made[name];
        assert_eq!(one["state"], "ACTIVE", "{made}");
        assert_eq!(&one["image"], image, "{made}");
        let address = one["private_ips"][0].as_str().unwrap_or_default();
        assert!(address.starts_with("10.9.0."), "{made}");
    }
    let full = services.data(house, &["-F"]);
    for name in ["web1", "web2"] {
        assert_eq!(full[name]["metadata"]["team"], "x", "{full}");
        assert_eq!(full[name]["id"], made[name]["id"], "{full}");
    }
}

/// Requests that Nova and Keystone refuse, which leave nothing.
fn refusals_have_the_clouds_texts(services: &Services, house: &House) {
    services.fails(
        house,
        &["-p", "web", "web1"],
        "web1 already exists under stack:openstack",
    );
    services.fails(
        house,
        &["-p", "unknown", "web3"],
        "flavors have no \"nosuch\"",
    );
    services.fails(
        house,
        &["-p", "small", "web3"],
        "Flavor's memory is too small for requested image.",
    );
    services.fails(
        house,
        &["-p", "web", "web3"],
        "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances",
    );
    let wrong = services.house("nosuch-0123456789");
    let text = "The request you have made requires authentication.";
    services.fails(&wrong, &["--list-sizes", "stack"], text);
    services.fails(&wrong, &["-p", "web", "web3"], text);
    for house in [house, &wrong] {
        assert_eq!(services.data(house, &["--orphans"]), json!({}));
    }
}

/// A server for which there is no host: Nova makes it, with the state `ERROR`.
fn a_failed_server_is_listed_and_destroyed(services: &Services, house: &House) {
    services.fails(house, &["-p", "huge", "web3"], "No valid host was found.");
    let orphans = services.data(house, &["--orphans"]);
    assert!(orphans.to_string().contains("web3"), "{orphans}");
    services.data(house, &["-y", "-d", "web3"]);
}

#[test]
fn servers_are_made_queried_stopped_refused_and_destroyed() {
    let Some(services) = Services::start() else {
        return;
    };
    let house = services.house(services.text("password"));
    offers_are_listed(&services, &house);
    servers_are_made(&services, &house);
    services.data(&house, &["-y", "-a", "stop", "web1"]);
    services.wait(&house, "web1", "SHUTOFF");
    services.data(&house, &["-y", "-a", "start", "web1"]);
    services.wait(&house, "web1", "ACTIVE");
    refusals_have_the_clouds_texts(&services, &house);
    services.data(&house, &["-y", "-d", "web2"]);
    a_failed_server_is_listed_and_destroyed(&services, &house);
    services.data(&house, &["-y", "-d", "web1"]);
    // The call has waited until Nova had removed it.
    assert_eq!(services.data(&house, &["-Q"]), json!({}));
    assert_eq!(services.data(&house, &["--orphans"]), json!({}));
}
