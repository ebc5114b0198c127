//! The driver `ec2`: the query API of Amazon EC2, with signed requests.

mod credentials;
mod request;
mod sign;
#[cfg(test)]
mod tests;
mod xml;

use machine::net::http::quoted;
use state::exec::Exec;
use value::{Map, Value};

use super::text;
use crate::driver::{Boot, Driver, Machine, Offer, RUN_TAG, Wanted};
use crate::fault::Fault;
use crate::http;
use credentials::Credentials;
use sign::Signed;

/// The version of the API.
const VERSION: &str = "2016-11-15";
/// The maximum number of pages of a list.
const PAGES_MAX: usize = 1_000;
/// The word for this driver in faults.
const EC2: &str = "ec2";
/// The codes of errors after which the same request may succeed later.
const THROTTLED: [&str; 5] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "EC2ThrottledException",
];
/// The states of instances that are gone.
const GONE: [&str; 2] = ["terminated", "shutting-down"];

/// The parameters of a request.
type Parameters = Vec<(String, String)>;

/// A region with credentials.
pub(super) struct Ec2 {
    region: String,
    url: String,
    credentials: Credentials,
    settings: Map,
}

fn parameter(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

impl Ec2 {
    /// Opens a region.
    ///
    /// # Errors
    /// When a setting is not well formed, or there are no credentials.
    pub(super) fn new(settings: Map) -> Result<Self, Fault> {
        let region = text(&settings, "location").or_else(|| text(&settings, "region"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let is_word = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !is_word(&region) {
            return Err(Fault::wrong(format!("ec2: invalid location {region:?}")));
        }
        let service = text(&settings, "service_url").unwrap_or_else(|| "amazonaws.com".to_owned());
        let url = text(&settings, "endpoint").unwrap_or_else(|| format!("ec2.{region}.{service}"));
        let url = match url.contains("://") {
            true => url,
            false => format!("https://{url}"),
        };
        Ok(Self {
            credentials: Credentials::of(&settings),
            url: format!("{}/", url.trim_end_matches('/')),
            region,
            settings,
        })
    }

    /// Sends a request, and returns the answer.
    fn call(&self, cx: &Exec, action: &str, parameters: Parameters) -> Result<Value, Fault> {
        let mut all = vec![parameter("Action", action), parameter("Version", VERSION)];
        all.extend(parameters);
        let pairs = all
            .iter()
            .map(|(key, value)| format!("{}={}", quoted(key), quoted(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        let mut request = http::request(cx, "POST", &self.url);
        let keys = self.credentials.keys(cx)?;
        let signed = Signed {
            keys: &keys,
            region: &self.region,
            service: EC2,
        };
        let kind = "application/x-www-form-urlencoded; charset=utf-8";
        request.headers = signed.headers(&self.url, kind, &body, &value::jid::new())?;
        request.body = Some(body.into_bytes());
        let (response, text) = http::answer(EC2, &request)?;
        let read = xml::read(&text);
        let Ok(answer) = read else {
            return Err(http::unreadable(EC2, &response, &text, "XML"));
        };
        match response.is_success() {
            true => Ok(answer),
            false => Err(fault(&answer, &response, &text)),
        }
    }

    /// Sends a request until it has all pages. `list` is the name of the list in the answer.
    fn pages(
        &self,
        cx: &Exec,
        action: &str,
        parameters: &Parameters,
        list: &str,
    ) -> Result<Vec<Value>, Fault> {
        let (mut all, mut next) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let mut asked = parameters.clone();
            if let Some(next) = next {
                asked.push(parameter("NextToken", next));
            }
            let answer = self.call(cx, action, asked)?;
            let Some(items) = answer.get(list) else {
                return Err(Fault::unanswered(
                    EC2,
                    &format!("the answer of {action} has no {list}"),
                ));
            };
            all.extend(items.as_list().unwrap_or_default().iter().cloned());
            next = answer
                .get("nextToken")
                .filter(|token| token.is_true())
                .map(Value::to_text);
            if next.is_none() {
                return Ok(all);
            }
        }
        Err(Fault::unanswered(
            EC2,
            &format!("{action} has more than {PAGES_MAX} pages"),
        ))
    }
}

/// Returns the fault of an answer with an error status.
fn fault(answer: &Value, response: &machine::net::http::Response, text: &str) -> Fault {
    let errors = answer.traverse("Errors:Error", ":");
    let field = |key: &str| errors.and_then(|error| error.get(key)).map(Value::to_text);
    let Some(code) = field("Code") else {
        return http::unreadable(EC2, response, text, "error of EC2");
    };
    let text = format!("{code}: {}", field("Message").unwrap_or_default());
    if THROTTLED.contains(&code.as_str()) {
        return Fault::throttled(EC2, &text, http::after(response));
    }
    match response.status >= 500 {
        true => Fault::unanswered(EC2, &text),
        false => Fault::refused(EC2, &code, &text),
    }
}

/// Returns an instance of an answer.
fn machine(instance: &Value) -> Machine {
    let field = |path: &str| {
        let found = instance.traverse(path, ":").filter(|value| value.is_true());
        found.map(Value::to_text).unwrap_or_default()
    };
    let tags = instance
        .get("tagSet")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let tag = |key: &str| {
        let mut found = tags
            .iter()
            .filter(|tag| tag.get("key") == Some(&key.into()));
        found
            .next()
            .and_then(|tag| tag.get("value"))
            .map(Value::to_text)
    };
    let id = field("instanceId");
    let address = |path: &str| Some(field(path)).filter(|text| !text.is_empty());
    let (public, private) = (address("ipAddress"), address("privateIpAddress"));
    Machine {
        name: tag("Name")
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| id.clone()),
        id,
        image: field("imageId"),
        size: field("instanceType"),
        state: field("instanceState:name"),
        full: full(instance, public.as_deref(), private.as_deref()),
        public_ips: public.into_iter().collect(),
        private_ips: private.into_iter().collect(),
        token: Some(field("clientToken"))
            .filter(|token| !token.is_empty())
            .or_else(|| tag(RUN_TAG)),
    }
}

/// Returns everything about an instance as Salt's driver shows it: an address is a text.
fn full(instance: &Value, public: Option<&str>, private: Option<&str>) -> Map {
    let shown = |address: Option<&str>| address.map_or_else(|| Value::list([]), Value::from);
    let all = xml::as_salt(instance);
    let all = all.as_map().cloned().unwrap_or_default();
    all.with("public_ips", shown(public))
        .with("private_ips", shown(private))
}

/// Returns the only instance of an answer.
fn only(answer: &Value) -> Option<Machine> {
    let instances = answer.get("instancesSet").and_then(Value::as_list)?;
    instances.first().map(machine)
}

impl Driver for Ec2 {
    fn boot(&self) -> Boot {
        Boot::UserData
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        let reservations = self.pages(cx, "DescribeInstances", &Vec::new(), "reservationSet")?;
        let instances = reservations.iter().flat_map(|reservation| {
            let set = reservation.get("instancesSet").and_then(Value::as_list);
            set.unwrap_or_default()
        });
        let machines = instances.map(machine);
        Ok(machines
            .filter(|machine| !GONE.contains(&machine.state.as_str()))
            .collect())
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let answer = self.call(cx, "RunInstances", request::of(wanted)?)?;
        only(&answer)
            .ok_or_else(|| Fault::unanswered(EC2, "the answer of RunInstances has no instance"))
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let id = parameter("InstanceId.1", machine.id.as_str());
        let answer = self.call(cx, "TerminateInstances", vec![id])?;
        changed(&answer)
    }

    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        _kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let action = match fun {
            "start" => "StartInstances",
            "stop" => "StopInstances",
            "reboot" => "RebootInstances",
            _ => return Ok(None),
        };
        let id = parameter("InstanceId.1", machine.id.as_str());
        let answer = self.call(cx, action, vec![id])?;
        match fun {
            "reboot" => Ok(Some(Map::new().with("Reboot", "Complete").into())),
            _ => Ok(Some(Value::list([changed(&answer)?]))),
        }
    }

    fn function(&self, cx: &Exec, fun: &str, kwargs: &Map) -> Result<Option<Value>, Fault> {
        if fun != "show_image" {
            return Ok(None);
        }
        let image = kwargs.get("image").map(Value::to_text);
        let image = image.ok_or_else(|| Fault::wrong("show_image needs image=ID"))?;
        let parameters = vec![parameter("ImageId.1", image)];
        let images = self.pages(cx, "DescribeImages", &parameters, "imagesSet")?;
        Ok(Some(Value::list(images)))
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        let owner = text(&self.settings, "owner").unwrap_or_else(|| "amazon".to_owned());
        let (action, parameters, list, key) = match offer {
            Offer::Images => (
                "DescribeImages",
                vec![parameter("Owner.1", owner)],
                "imagesSet",
                "imageId",
            ),
            Offer::Sizes => (
                "DescribeInstanceTypes",
                Vec::new(),
                "instanceTypeSet",
                "instanceType",
            ),
            Offer::Locations => ("DescribeRegions", Vec::new(), "regionInfo", "regionName"),
        };
        let all = self.pages(cx, action, &parameters, list)?;
        let named = all.into_iter().filter_map(|item| {
            let name = item.get(key)?.to_text();
            let shown = match offer {
                Offer::Locations => location(&name, &item),
                _ => xml::as_salt(&item),
            };
            Some((name, shown))
        });
        Ok(named.collect())
    }
}

/// Returns a region as Salt's driver shows it.
fn location(name: &str, region: &Value) -> Value {
    let endpoint = region.get("regionEndpoint").cloned().unwrap_or_default();
    let shown = Map::new().with("name", name).with("endpoint", endpoint);
    shown.into()
}

/// Returns the change of state in an answer.
fn changed(answer: &Value) -> Result<Value, Fault> {
    let set = answer.get("instancesSet").and_then(Value::as_list);
    let Some(first) = set.and_then(<[Value]>::first) else {
        return Err(Fault::unanswered(
            EC2,
            "the answer has no state of the instance",
        ));
    };
    Ok(first.clone())
}
