use ::tests::server;
use state::exec::Exec;
use value::{Map, Value};

use super::credentials::Credentials;
use super::sign::Signed;
use super::*;
use crate::spec::Spec;
use crate::testing::{Home, spec_of};

fn keys(cx: &Exec) -> credentials::Keys {
    let settings = Map::new()
        .with("id", "AKIDEXAMPLE")
        .with("key", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    Credentials::of(&settings).keys(cx).unwrap()
}

/// The case `post-x-www-form-urlencoded` of Amazon's published examples.
#[test]
fn a_signature_is_that_of_the_published_example() {
    let home = Home::new();
    let keys = keys(&home.cx());
    let signed = Signed {
        keys: &keys,
        region: "us-east-1",
        service: "service",
    };
    let url = "https://example.amazonaws.com/";
    let kind = "application/x-www-form-urlencoded";
    let headers = signed
        .headers(url, kind, "Param1=value1", "20150830123600000000")
        .unwrap();
    let (_, value) = headers
        .iter()
        .find(|(name, _)| name == "authorization")
        .unwrap();
    let wanted = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a";
    assert_eq!(value, wanted);
}

fn driver(url: &str) -> Ec2 {
    let settings = Map::new()
        .with("id", "AKIDEXAMPLE")
        .with("key", "0123456789abcdefghij")
        .with("endpoint", url);
    Ec2::new(settings).unwrap()
}

fn error(status: &str, headers: &str, body: &str) -> Fault {
    let (status, headers, body) = (status.to_owned(), headers.to_owned(), body.to_owned());
    let url = server::start(move |_, _| server::text(&status, &headers, &body));
    driver(&url).list(&Home::new().cx()).unwrap_err()
}

#[test]
fn an_error_has_the_clouds_own_text() {
    let xml = |code: &str| {
        format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>You have no more</Message></Error></Errors></Response>"
        )
    };
    let quota = error("400 Bad Request", "", &xml("InstanceLimitExceeded"));
    assert_eq!(
        quota.to_string(),
        "ec2: InstanceLimitExceeded: You have no more"
    );
    assert_eq!(quota.code(), "InstanceLimitExceeded");
    let busy = error(
        "503 Service Unavailable",
        "Retry-After: 7\r\n",
        &xml("RequestLimitExceeded"),
    );
    assert!(
        matches!(&busy, Fault::Throttled { after: Some(after), .. } if after.as_secs() == 7),
        "{busy:?}"
    );
    let late = error("500 Internal Server Error", "", &xml("InternalError"));
    assert!(matches!(late, Fault::Unanswered { .. }), "{late:?}");
    let html = error(
        "502 Bad Gateway",
        "",
        "<html><body>Bad <br> gateway</body></html>",
    );
    assert!(
        html.to_string()
            .contains("HTTP 502 Bad Gateway, and the answer is no XML"),
        "{html}"
    );
    let empty = error("200 OK", "", "<DescribeInstancesResponse/>");
    assert!(
        empty.to_string().contains("has no reservationSet"),
        "{empty}"
    );
}

#[test]
fn a_list_has_all_pages_and_no_instance_that_is_gone() {
    let page = |id: &str, state: &str, next: &str| {
        format!(
            "<R><reservationSet><item><instancesSet><item><instanceId>{id}</instanceId><instanceState><name>{state}</name></instanceState><tagSet><item><key>Name</key><value>web-{id}</value></item></tagSet><privateIpAddress>10.0.0.1</privateIpAddress></item></instancesSet></item></reservationSet>{next}</R>"
        )
    };
    let url = server::start(move |_, body| {
        let text = match body {
            body if body.contains("NextToken=a") => {
                page("2", "running", "<nextToken>b</nextToken>")
            }
            body if body.contains("NextToken=b") => page("3", "terminated", ""),
            _ => page("1", "pending", "<nextToken>a</nextToken>"),
        };
        server::text("200 OK", "", &text)
    });
    let machines = driver(&url).list(&Home::new().cx()).unwrap();
    let names: Vec<&str> = machines
        .iter()
        .map(|machine| machine.name.as_str())
        .collect();
    assert_eq!(names, ["web-1", "web-2"]);
    assert_eq!(machines[0].private_ips, ["10.0.0.1"]);
}

#[test]
fn a_new_instance_has_the_token_as_its_client_token_and_tag() {
    let mut spec = spec_of("web1", "mine", "ec2");
    spec.settings.insert("image", "ami-1");
    spec.settings.insert("tag", Map::new().with("team", "x"));
    let groups = Value::list(["a".into(), "b".into()]);
    spec.settings.insert("securitygroup", groups);
    let wanted = Wanted {
        spec: &spec,
        token: "t0",
        user_data: Some("#cloud-config\n"),
    };
    let all = request::of(&wanted).unwrap();
    let has = |name: &str, value: &str| all.contains(&parameter(name, value));
    assert!(
        has("ClientToken", "t0") && has("SecurityGroup.2", "b"),
        "{all:?}"
    );
    assert!(has("UserData", "I2Nsb3VkLWNvbmZpZwo="), "{all:?}");
    assert!(has("TagSpecification.1.Tag.3.Key", "pinch-run"), "{all:?}");
    assert!(has("TagSpecification.1.Tag.3.Value", "t0"), "{all:?}");
    let mut spec = spec.clone();
    spec.settings
        .insert("spot_config", Map::new().with("spot_price", "0.10"));
    let error = request::of(&Wanted {
        spec: &spec,
        ..wanted
    });
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "web1: the driver ec2 does not support the setting spot_config"
    );
}

#[test]
fn devices_have_the_names_of_the_api() {
    let mut spec = spec_of("web1", "mine", "ec2");
    spec.settings.insert("image", "ami-1");
    let device = Map::new()
        .with("DeviceName", "/dev/sda1")
        .with("Ebs.VolumeSize", 20)
        .with("Ebs.DeleteOnTermination", true);
    spec.settings
        .insert("block_device_mappings", Value::list([device.into()]));
    let asked = |spec: &Spec| {
        request::of(&Wanted {
            spec,
            token: "t0",
            user_data: None,
        })
    };
    let all = asked(&spec).unwrap();
    let has = |name: &str, value: &str| all.contains(&parameter(name, value));
    assert!(has("BlockDeviceMapping.1.Ebs.VolumeSize", "20"), "{all:?}");
    assert!(
        has("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
        "{all:?}"
    );
    spec.settings.insert("block_device_mappings", "/dev/sda1");
    assert!(asked(&spec).is_err());
}
