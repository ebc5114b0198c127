//! The `firewalld` execution module: services.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::{managed, run, words};

state::exec_module! {
    /// The firewall (`firewall-cmd`).
    mod firewalld;

    /// The names of all services.
    fn get_services(GetServices {
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Make a service.
    fn new_service(NewService {
        /// Its name.
        name: String,
        /// Whether it is taken up.
        restart: bool = true,
    });

    /// Remove a service.
    fn delete_service(DeleteService {
        /// Its name.
        name: String,
        /// Whether that is taken up.
        restart: bool = true,
    });

    /// Add a port to a service.
    fn add_service_port(AddServicePort {
        /// The service.
        service: String,
        /// The port.
        port: String,
    });

    /// Remove a port from a service.
    fn remove_service_port(RemoveServicePort {
        /// The service.
        service: String,
        /// The port.
        port: String,
    });

    /// The ports of a service.
    fn get_service_ports(GetServicePorts {
        /// The service.
        service: String,
    });

    /// Add a protocol to a service.
    fn add_service_protocol(AddServiceProtocol {
        /// The service.
        service: String,
        /// The protocol.
        protocol: String,
    });

    /// Remove a protocol from a service.
    fn remove_service_protocol(RemoveServiceProtocol {
        /// The service.
        service: String,
        /// The protocol.
        protocol: String,
    });

    /// The protocols of a service.
    fn get_service_protocols(GetServiceProtocols {
        /// The service.
        service: String,
    });
}

/// An option for a service.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn of_service(cx: &Exec, service: &str, option: String) -> Result<String, Error> {
    run(
        cx,
        &["--permanent".into(), format!("--service={service}"), option],
    )
}

fn set_port(cx: &Exec, service: &str, option: String) -> Result<Value, Error> {
    if !words(cx, "--get-services", true)?
        .iter()
        .any(|known| known == service)
    {
        return Err("The service does not exist.".into());
    }
    Ok(of_service(cx, service, option)?.into())
}

/// What a service has: `--get-ports` or `--get-protocols`.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn service_has(cx: &Exec, service: &str, option: &str) -> Result<Vec<String>, Error> {
    let said = of_service(cx, service, option.to_owned())?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

fn get_services(cx: &Exec, args: GetServices) -> Result<Value, Error> {
    Ok(words(cx, "--get-services", args.permanent)?.into())
}

fn new_service(cx: &Exec, args: NewService) -> Result<Value, Error> {
    managed(cx, format!("--new-service={}", args.name), args.restart)
}

fn delete_service(cx: &Exec, args: DeleteService) -> Result<Value, Error> {
    managed(cx, format!("--delete-service={}", args.name), args.restart)
}

fn add_service_port(cx: &Exec, args: AddServicePort) -> Result<Value, Error> {
    set_port(cx, &args.service, format!("--add-port={}", args.port))
}

fn remove_service_port(cx: &Exec, args: RemoveServicePort) -> Result<Value, Error> {
    set_port(cx, &args.service, format!("--remove-port={}", args.port))
}

fn get_service_ports(cx: &Exec, args: GetServicePorts) -> Result<Value, Error> {
    Ok(service_has(cx, &args.service, "--get-ports")?.into())
}

fn add_service_protocol(cx: &Exec, args: AddServiceProtocol) -> Result<Value, Error> {
    Ok(of_service(
        cx,
        &args.service,
        format!("--add-protocol={}", args.protocol),
    )?
    .into())
}

fn remove_service_protocol(cx: &Exec, args: RemoveServiceProtocol) -> Result<Value, Error> {
    Ok(of_service(
        cx,
        &args.service,
        format!("--remove-protocol={}", args.protocol),
    )?
    .into())
}

fn get_service_protocols(cx: &Exec, args: GetServiceProtocols) -> Result<Value, Error> {
    Ok(service_has(cx, &args.service, "--get-protocols")?.into())
}
