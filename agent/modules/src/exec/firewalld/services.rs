//! The `firewalld` execution module: the functions for services.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::{managed, run, words};

state::exec_module! {
    /// Manage the firewall (`firewall-cmd`).
    mod firewalld;

    /// Return the names of all services.
    ///
    ///     salt-call firewalld.get_services
    fn get_services(GetServices {
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Create a service.
    ///
    ///     salt-call firewalld.new_service app
    fn new_service(NewService {
        /// The name of the service.
        name: String,
        /// True to reload the firewall afterwards.
        restart: bool = true,
    });

    /// Remove a service.
    ///
    ///     salt-call firewalld.delete_service app
    fn delete_service(DeleteService {
        /// The name of the service.
        name: String,
        /// True to reload the firewall afterwards.
        restart: bool = true,
    });

    /// Add a port to a service.
    ///
    ///     salt-call firewalld.add_service_port app 8080/tcp
    fn add_service_port(AddServicePort {
        /// The name of the service.
        service: String,
        /// The port and protocol, such as `443/tcp`.
        port: String,
    });

    /// Remove a port from a service.
    ///
    ///     salt-call firewalld.remove_service_port app 8080/tcp
    fn remove_service_port(RemoveServicePort {
        /// The name of the service.
        service: String,
        /// The port and protocol, such as `443/tcp`.
        port: String,
    });

    /// Return the ports of a service.
    ///
    ///     salt-call firewalld.get_service_ports app
    fn get_service_ports(GetServicePorts {
        /// The name of the service.
        service: String,
    });

    /// Add a protocol to a service.
    ///
    ///     salt-call firewalld.add_service_protocol app udp
    fn add_service_protocol(AddServiceProtocol {
        /// The name of the service.
        service: String,
        /// The name of the protocol.
        protocol: String,
    });

    /// Remove a protocol from a service.
    ///
    ///     salt-call firewalld.remove_service_protocol app udp
    fn remove_service_protocol(RemoveServiceProtocol {
        /// The name of the service.
        service: String,
        /// The name of the protocol.
        protocol: String,
    });

    /// Return the protocols of a service.
    ///
    ///     salt-call firewalld.get_service_protocols app
    fn get_service_protocols(GetServiceProtocols {
        /// The name of the service.
        service: String,
    });
}

/// Runs the program with an option for a service, in the permanent configuration.
///
/// # Errors
/// The output of the program when it fails.
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

/// Returns the ports (`--get-ports`) or protocols (`--get-protocols`) of a service.
///
/// # Errors
/// The output of the program when it fails.
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
