//! The request for a new instance, from the settings of Salt's driver.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use value::{Map, Value};

use super::{Parameters, parameter};
use crate::driver::{RUN_TAG, Wanted};
use crate::fault::Fault;
use crate::spec::Spec;

/// The settings of Salt's driver that this one does not have.
const ABSENT: [&str; 8] = [
    "network_interfaces",
    "spot_config",
    "volumes",
    "subnetname",
    "securitygroupname",
    "del_root_vol_on_destroy",
    "del_all_vols_on_destroy",
    "termination_protection",
];
/// The parameters that are the text of a setting.
const TEXTS: [(&str, &str); 6] = [
    ("InstanceType", "size"),
    ("KeyName", "keyname"),
    ("SubnetId", "subnetid"),
    ("Placement.AvailabilityZone", "availability_zone"),
    ("Placement.GroupName", "placementgroup"),
    ("Placement.Tenancy", "tenancy"),
];
/// The parameters that are the texts of a setting, numbered.
const LISTS: [(&str, &str); 2] = [
    ("SecurityGroup", "securitygroup"),
    ("SecurityGroupId", "securitygroupid"),
];

/// Returns the parameters of a new instance.
///
/// # Errors
/// When it has no image, or a setting that this driver does not have.
pub(super) fn of(wanted: &Wanted<'_>) -> Result<Parameters, Fault> {
    let spec = wanted.spec;
    if let Some(absent) = ABSENT.into_iter().find(|key| spec.flag(key, false)) {
        return Err(Fault::wrong(format!(
            "{}: the driver ec2 does not support the setting {absent}",
            spec.name
        )));
    }
    let image = spec
        .text("image")
        .ok_or_else(|| Fault::wrong(format!("{}: the profile has no image", spec.name)))?;
    let mut all = vec![
        parameter("ImageId", image),
        parameter("MinCount", "1"),
        parameter("MaxCount", "1"),
        parameter("ClientToken", wanted.token),
    ];
    for (name, key) in TEXTS {
        all.extend(spec.text(key).map(|value| parameter(name, value)));
    }
    if spec.flag("ebs_optimized", false) {
        all.push(parameter("EbsOptimized", "true"));
    }
    if let Some(profile) = spec.text("iam_profile") {
        let name = match profile.starts_with("arn:") {
            true => "IamInstanceProfile.Arn",
            false => "IamInstanceProfile.Name",
        };
        all.push(parameter(name, profile));
    }
    for (name, key) in LISTS {
        let groups = spec.get(key).map(Value::split_input).unwrap_or_default();
        for (index, group) in groups.into_iter().enumerate() {
            all.push(parameter(&format!("{name}.{}", index + 1), group));
        }
    }
    all.extend(devices(spec)?);
    all.extend(tags(spec, wanted.token));
    let data = wanted.user_data.map(|data| STANDARD.encode(data));
    all.extend(data.map(|data| parameter("UserData", data)));
    Ok(all)
}

/// Returns the parameters of `block_device_mappings`: a list of dictionaries with the names of the API
/// (`DeviceName`, `Ebs.VolumeSize`).
fn devices(spec: &Spec) -> Result<Parameters, Fault> {
    let wrong = || {
        Fault::wrong(format!(
            "{}: block_device_mappings must be a list of dictionaries such as {{DeviceName: /dev/sda1, Ebs.VolumeSize: 20}}",
            spec.name
        ))
    };
    let Some(devices) = spec.get("block_device_mappings") else {
        return Ok(Vec::new());
    };
    let devices = devices.as_list().ok_or_else(wrong)?;
    let mut all = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        for (key, value) in device.as_map().ok_or_else(wrong)? {
            let name = format!("BlockDeviceMapping.{}.{}", index + 1, key.as_text());
            let text = match value {
                Value::Bool(flag) => flag.to_string(),
                value => value.to_text(),
            };
            all.push(parameter(&name, text));
        }
    }
    Ok(all)
}

/// Returns the parameters of the tags: those of the settings, the name, and the client token.
fn tags(spec: &Spec, token: &str) -> Parameters {
    let mut tags: Map = spec.map("tag");
    tags.insert("Name", spec.name.as_str());
    tags.insert(RUN_TAG, token);
    let mut all = vec![parameter("TagSpecification.1.ResourceType", "instance")];
    for (index, (key, value)) in tags.iter().enumerate() {
        let name = format!("TagSpecification.1.Tag.{}", index + 1);
        all.push(parameter(&format!("{name}.Key"), key.to_text()));
        all.push(parameter(&format!("{name}.Value"), value.to_text()));
    }
    all
}
