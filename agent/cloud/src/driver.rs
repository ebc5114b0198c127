//! [`Driver`]: the only part that knows a cloud.

use state::exec::Exec;
use value::{Map, Value};

use crate::config::Provider;
use crate::fault::Fault;
use crate::spec::Spec;

pub use modules::exec::cloud::Offer;

/// The key of the tag by which a machine of an unfinished call is found again.
pub const RUN_TAG: &str = "pinch-run";

/// A machine of a cloud.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The name.
    pub name: String,
    /// The id that the cloud has given it.
    pub id: String,
    /// The image.
    pub image: String,
    /// The size.
    pub size: String,
    /// The state, in the cloud's own word: `running`, `pending`.
    pub state: String,
    /// The addresses that everyone can reach.
    pub public_ips: Vec<String>,
    /// The other addresses.
    pub private_ips: Vec<String>,
    /// The client token of the call that has made it, if the cloud keeps one.
    pub token: Option<String>,
    /// Everything that the cloud says about it.
    pub full: Map,
}

impl Machine {
    /// Returns the fields that a query shows. Addresses are a list, unless the driver has them in
    /// another form.
    #[must_use]
    pub fn summary(&self) -> Map {
        let texts = |key: &str, texts: &[String]| match self.full.get(key) {
            Some(own) => own.clone(),
            None => Value::list(texts.iter().map(|text| text.as_str().into())),
        };
        Map::new()
            .with("id", self.id.as_str())
            .with("image", self.image.as_str())
            .with("name", self.name.as_str())
            .with("private_ips", texts("private_ips", &self.private_ips))
            .with("public_ips", texts("public_ips", &self.public_ips))
            .with("size", self.size.as_str())
            .with("state", self.state.as_str())
    }

    /// Returns everything that is known.
    #[must_use]
    pub fn details(&self) -> Map {
        let mut all = self.full.clone();
        all.update(self.summary());
        all
    }

    /// Returns an address to connect to: a public one if there is one.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        let mut all = self.public_ips.iter().chain(&self.private_ips);
        all.next().map(String::as_str)
    }
}

/// The first start of the machines of a driver, if a profile does not choose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The cloud passes user data to the machine.
    UserData,
    /// The machine is reached by ssh.
    Ssh,
    /// The driver does it.
    Driver,
}

/// A machine to create, with what must be the same for each attempt.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Its settings.
    pub spec: &'a Spec,
    /// The client token: 32 letters and digits.
    pub token: &'a str,
    /// The user data for its first start.
    pub user_data: Option<&'a str>,
}

/// A cloud. It keeps no state: all calls may be repeated.
pub trait Driver: Send + Sync {
    /// Returns the first start of its machines.
    fn boot(&self) -> Boot;

    /// Lists the machines. Those that are gone are left out.
    ///
    /// # Errors
    /// When the cloud does not list all of them.
    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault>;

    /// Creates a machine, or returns the one that has been created with this token.
    ///
    /// # Errors
    /// When there is none. After [`Fault::Unanswered`] there may be one.
    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault>;

    /// Finishes a machine that an earlier call has begun to create. Most clouds create one in a single
    /// step.
    ///
    /// # Errors
    /// When it cannot be finished.
    fn resume(&self, _cx: &Exec, _wanted: &Wanted<'_>, machine: Machine) -> Result<Machine, Fault> {
        Ok(machine)
    }

    /// Removes a machine.
    ///
    /// # Errors
    /// When it may still be there.
    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault>;

    /// Calls an action of a machine. Returns `None` if the cloud has no such action.
    ///
    /// # Errors
    /// When the cloud refuses.
    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        kwargs: &Map,
    ) -> Result<Option<Value>, Fault>;

    /// Calls a function that needs no machine. Returns `None` if the cloud has no such function. Some
    /// clouds have none at all.
    ///
    /// # Errors
    /// When the cloud refuses.
    fn function(&self, _cx: &Exec, _fun: &str, _kwargs: &Map) -> Result<Option<Value>, Fault> {
        Ok(None)
    }

    /// Lists what the cloud offers.
    ///
    /// # Errors
    /// When the cloud does not list it.
    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault>;

    /// Returns whether a machine in this state is complete, when it has an address.
    fn is_running(&self, state: &str) -> bool {
        matches!(
            state.to_ascii_lowercase().as_str(),
            "running" | "active" | "on"
        )
    }

    /// Returns the settings of the provider that are credentials of the cloud although machines have
    /// settings with the same name. No machine gets them.
    fn credentials(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether a machine in this state never runs.
    fn has_failed(&self, _state: &str) -> bool {
        false
    }

    /// Returns whether a machine needs no address to be complete.
    fn needs_no_address(&self) -> bool {
        false
    }
}

/// A provider with its opened driver.
pub type Opened<'a> = (&'a Provider, Box<dyn Driver>);
