//! Reads the options that concern a Salt master.

use std::time::Duration;

use link::Master;
use saltlink::{EncAlgo, Keepalive, Settings, SigAlgo, Transport};
use state::opts::Opts;
use value::Value;

use super::super::settings::{autosign_grains, master_fingers, source, wrong};
use crate::error::Error;

/// The options that change the protocol in a way that is not supported.
const UNSUPPORTED: [(&str, &str); 3] = [
    (
        "minion_sign_messages",
        "messages to a Salt master are not signed: remove the option",
    ),
    (
        "disable_aes_with_tls",
        "messages to a Salt master are always encrypted: remove the option",
    ),
    (
        "ssl",
        "TLS to a Salt master is not supported: remove the option",
    ),
];

/// Returns the settings of a connection with a master.
///
/// # Errors
/// When an option is invalid, or asks for a part of the protocol that is not supported.
pub(in crate::uplink) fn settings(opts: &Opts, master: &Master) -> Result<Settings, Error> {
    for (option, problem) in UNSUPPORTED {
        if opts.get(option).is_some_and(Value::is_true) {
            return Err(wrong(option, problem));
        }
    }
    let text = |option| opts.text(option).unwrap_or_default().to_owned();
    Ok(Settings {
        ret_port: master.port,
        publish_port: publish_port(opts)?,
        source: source(opts)?,
        transport: transport(opts)?,
        enc_algo: algorithm(opts, "encryption_algorithm", EncAlgo::parse)?,
        sig_algo: algorithm(opts, "signing_algorithm", SigAlgo::parse)?,
        master_finger: finger(opts)?,
        hash_type: text("hash_type"),
        verify_master_pubkey_sign: opts.flag("verify_master_pubkey_sign"),
        master_sign_key_name: text("master_sign_key_name"),
        verify_signed_publications: !opts.flag("accept_unsigned_publications"),
        zmq_filtering: opts.flag("zmq_filtering"),
        keysize: number(opts, "keysize")?,
        autosign_grains: autosign_grains(opts),
        auth_timeout: seconds(opts, "auth_timeout")?,
        auth_tries: number(opts, "auth_tries")?,
        request_timeout: seconds(opts, "request_channel_timeout")?,
        request_tries: number(opts, "request_channel_tries")?,
        keepalive: keepalive(opts),
        ..Settings::new(opts.id(), &master.host, opts.path("pki_dir"))
    })
}

/// Returns `master_finger`, which can only be one for a Salt master.
fn finger(opts: &Opts) -> Result<Option<String>, Error> {
    match master_fingers(opts).as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        _ => Err(wrong(
            "master_finger",
            "a Salt master has only one fingerprint",
        )),
    }
}

fn transport(opts: &Opts) -> Result<Transport, Error> {
    match opts.text("transport").unwrap_or("zeromq") {
        "zeromq" => Ok(Transport::ZeroMq),
        "tcp" => Ok(Transport::Tcp),
        other => Err(wrong(
            "transport",
            format!("unsupported value {other}, expected zeromq or tcp"),
        )),
    }
}

fn algorithm<T: Default>(
    opts: &Opts,
    option: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, Error> {
    let Some(name) = opts.text(option).filter(|name| !name.is_empty()) else {
        return Ok(T::default());
    };
    parse(name).ok_or_else(|| wrong(option, format!("unknown algorithm {name}")))
}

fn publish_port(opts: &Opts) -> Result<Option<u16>, Error> {
    match opts.get("publish_port").filter(|port| port.is_true()) {
        None => Ok(None),
        Some(port) => number_of("publish_port", port).map(Some),
    }
}

fn number_of<T: TryFrom<u64>>(option: &'static str, value: &Value) -> Result<T, Error> {
    let text = value.to_text();
    let number: Option<u64> = text.parse().ok();
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| wrong(option, format!("invalid number {text}")))
}

fn number(opts: &Opts, option: &'static str) -> Result<u32, Error> {
    let value = opts.get(option).cloned().unwrap_or_default();
    number_of(option, &value)
}

fn seconds(opts: &Opts, option: &'static str) -> Result<Duration, Error> {
    Ok(Duration::from_secs(number(opts, option)?.max(1).into()))
}

fn keepalive(opts: &Opts) -> Option<Keepalive> {
    if !opts.flag("tcp_keepalive") {
        return None;
    }
    // Salt's −1 leaves a number to the kernel.
    let set = |option| {
        let number = opts.get(option).and_then(Value::as_float)?;
        (number >= 1.0).then_some(number)
    };
    let time = |option| set(option).and_then(link::wait::seconds);
    Some(Keepalive {
        idle: time("tcp_keepalive_idle").unwrap_or(Duration::from_secs(300)),
        interval: time("tcp_keepalive_intvl"),
        count: set("tcp_keepalive_cnt").map(|count| count.min(127.0) as u32),
    })
}

#[cfg(test)]
mod tests {
    use value::Map;

    use super::*;

    fn read(more: Map) -> Result<Settings, Error> {
        let mut map = Map::new()
            .with("id", "m1")
            .with("pki_dir", "/nonexistent")
            .with("keysize", 2048)
            .with("auth_timeout", 5)
            .with("auth_tries", 7)
            .with("request_channel_timeout", 60)
            .with("request_channel_tries", 3);
        map.update(more);
        settings(&Opts::new(map), &Master::parse("salt", 4506))
    }

    #[test]
    fn options_of_salt_reach_the_connection() {
        let more = Map::new()
            .with("transport", "tcp")
            .with("publish_port", 14505)
            .with("source_address", "127.0.0.9")
            .with("signing_algorithm", "PKCS1v15-SHA224")
            .with("tcp_keepalive", true)
            .with("tcp_keepalive_idle", 10);
        let read = read(more).unwrap();
        assert_eq!(read.transport, Transport::Tcp);
        assert_eq!(read.publish_port, Some(14505));
        assert_eq!(read.source, Some([127, 0, 0, 9].into()));
        assert_eq!(read.sig_algo, SigAlgo::Pkcs1v15Sha224);
        assert!(read.verify_signed_publications);
        assert_eq!(
            read.keepalive.map(|keepalive| keepalive.idle.as_secs()),
            Some(10)
        );
        assert_eq!((read.host.as_str(), read.ret_port), ("salt", 4506));
    }

    #[test]
    fn what_is_not_supported_is_an_error_that_names_the_option() {
        let cases = [
            ("transport", Value::from("ws")),
            ("minion_sign_messages", true.into()),
            ("disable_aes_with_tls", true.into()),
            ("signing_algorithm", "PKCS1v15-MD5".into()),
            ("auth_tries", "many".into()),
        ];
        for (option, value) in cases {
            let error = read(Map::new().with(option, value)).unwrap_err();
            assert!(error.to_string().contains(option), "{error}");
        }
    }
}
