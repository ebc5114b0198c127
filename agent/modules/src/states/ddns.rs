//! The `ddns` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

state::state_module! {
    /// Update DNS records dynamically (RFC 2136). `nameserver`, `port`, `timeout`, `replace`,
    /// `keyfile` (JSON of names and secrets), `keyname` and `keyalgorithm` set the server and the
    /// key.
    #[needs("nsupdate", "ddns module could not be loaded", "bind9-dnsutils")]
    #[needs("dig", "ddns module could not be loaded", "bind9-dnsutils")]
    #[facts(free_arguments = true)]
    mod ddns;

    /// Make sure that a record exists.
    ///
    ///     web1:
    ///       ddns.present:
    ///         - zone: example.com
    ///         - ttl: 300
    ///         - data: 192.0.2.10
    fn present(Present {
        /// The name within the zone, or a full name that ends with a full stop.
        name: String,
        /// The zone.
        zone: String,
        /// The time to live of the record, in seconds.
        ttl: Value,
        /// The data of the record.
        data: Value,
        /// The type of the record.
        rdtype: String = "A".into(),
        ..kwargs
    });

    /// Make sure that a record does not exist.
    ///
    ///     web1:
    ///       ddns.absent:
    ///         - zone: example.com
    fn absent(Absent {
        /// The name within the zone, or a full name that ends with a full stop.
        name: String,
        /// The zone.
        zone: String,
        /// The data of the record. Default: all records of the name.
        data: Value = Value::Null,
        /// The type of the record. Default: all types.
        rdtype: Option<String> = None,
        ..kwargs
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, kind, ttl) = (
        args.name.as_str(),
        args.rdtype.as_str(),
        python::str(&args.ttl),
    );
    let would = Ret::would(format!("{kind} record \"{name}\" will be updated"));
    cx.apply(would, || {
        let given = Map::new()
            .with("zone", args.zone.as_str())
            .with("name", name)
            .with("ttl", args.ttl.clone())
            .with("rdtype", kind)
            .with("data", python::str(&args.data));
        let mut kwargs = args.kwargs;
        kwargs.update(given);
        let status = cx.call_internal("ddns.update", Vec::new(), kwargs)?;
        Ok(match status {
            Value::Null => Ret::ok(format!(
                "{kind} record \"{name}\" already present with ttl of {ttl}"
            )),
            status if status.is_true() => Ret::ok(format!("Updated {kind} record for \"{name}\""))
                .changes(
                    Map::new()
                        .with("name", name)
                        .with("zone", args.zone)
                        .with("ttl", args.ttl)
                        .with("rdtype", kind)
                        .with("data", args.data),
                ),
            _ => Ret::failed(format!(
                "Failed to create or update {kind} record for \"{name}\""
            )),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, kind) = (args.name.as_str(), args.rdtype.as_deref());
    let would = Ret::would(format!(
        "{} record \"{name}\" will be deleted",
        kind.unwrap_or("None")
    ));
    cx.apply(would, || {
        let mut kwargs = args
            .kwargs
            .with("zone", args.zone.as_str())
            .with("name", name);
        kind.map(|kind| kwargs.insert("rdtype", kind));
        if args.data.is_true() {
            kwargs.insert("data", python::str(&args.data));
        }
        let status = cx.call_internal("ddns.delete", Vec::new(), kwargs)?;
        Ok(match status {
            Value::Null => Ret::ok("No matching DNS record(s) present"),
            status if status.is_true() => {
                let gone = Map::new().with("name", name).with("zone", args.zone);
                Ret::ok("Deleted DNS record(s)").change("Deleted", gone)
            }
            _ => Ret::failed("Failed to delete DNS record(s)"),
        })
    })
}
