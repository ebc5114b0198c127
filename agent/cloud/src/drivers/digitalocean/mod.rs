//! The driver `digitalocean`: droplets, version 2 of the API. It has no client tokens: the token of a
//! call is a tag of the droplet, by which a repeated call looks for it first.

#[cfg(test)]
mod tests;

use state::exec::Exec;
use value::{Map, Value, log};

use super::api::{self, Api, address, field, items, path, query};
use crate::driver::{Boot, Driver, Machine, Offer, RUN_TAG, Wanted};
use crate::fault::Fault;

/// The word for this driver in faults.
const DIGITALOCEAN: &str = "digitalocean";
/// The address of the API, unless `api_root` replaces it.
const URL: &str = "https://api.digitalocean.com/v2";
/// The number of items on a page, which is the API's maximum.
const PAGE: &str = "per_page=200";
/// The state of droplets that are gone.
const GONE: &str = "archive";

/// A team's account.
pub(super) struct DigitalOcean {
    api: Api,
}

/// Returns the code and the text of an error.
fn said(answer: &Value) -> Option<api::Said> {
    let text = field(answer, "message");
    (!text.is_empty()).then(|| (field(answer, "id"), text))
}

/// Returns the tag with the token of a call.
fn tag(token: &str) -> String {
    format!("{RUN_TAG}:{token}")
}

/// Returns the addresses of a kind: `public` or `private`.
fn addresses(droplet: &Value, kind: &str) -> Vec<String> {
    let all = ["networks:v4", "networks:v6"].into_iter();
    let all = all.flat_map(|path| items(droplet, path));
    all.filter(|net| field(net, "type") == kind)
        .filter_map(|net| address(&field(net, "ip_address")))
        .collect()
}

/// Returns a droplet of an answer.
fn machine(droplet: &Value) -> Option<Machine> {
    let id = field(droplet, "id");
    let image = ["image:slug", "image:name", "image:id"].map(|path| field(droplet, path));
    let mut tags = items(droplet, "tags").iter().filter_map(Value::as_str);
    let token = tags.find_map(|tag| tag.strip_prefix(RUN_TAG)?.strip_prefix(':'));
    (!id.is_empty()).then(|| Machine {
        name: field(droplet, "name"),
        id,
        image: image
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
        size: field(droplet, "size_slug"),
        state: field(droplet, "status"),
        public_ips: addresses(droplet, "public"),
        private_ips: addresses(droplet, "private"),
        token: token.map(str::to_owned),
        full: droplet.as_map().cloned().unwrap_or_default(),
    })
}

impl DigitalOcean {
    /// Opens an account.
    ///
    /// # Errors
    /// When `personal_access_token` is missing, or a setting is not well formed.
    pub(super) fn new(settings: &Map) -> Result<Self, Fault> {
        let token = api::secret(DIGITALOCEAN, settings, "personal_access_token")?;
        let base = api::base(DIGITALOCEAN, settings, "api_root", URL)?;
        let api = Api::new(DIGITALOCEAN, base, api::bearer(&token), said);
        Ok(Self { api })
    }

    /// Returns all items of a list. `filter` is more of the query. The address of the next page is
    /// not followed, because another server may be in it; only its number counts.
    fn all(
        &self,
        cx: &Exec,
        (path, list, filter): (&str, &str, &str),
    ) -> Result<Vec<Value>, Fault> {
        let mark = if filter.is_empty() { "" } else { "&" };
        let first = format!("{PAGE}{mark}{filter}");
        self.api.pages(cx, (path, list, &first), |answer, page| {
            let has_more = answer.traverse("links:pages:next", ":")?.is_true();
            has_more.then(|| format!("{first}&page={}", page + 1))
        })
    }

    fn droplets(&self, cx: &Exec, filter: &str) -> Result<Vec<Machine>, Fault> {
        let droplets = self.all(cx, ("/droplets", "droplets", filter))?;
        self.api.machines("/droplets", &droplets, machine, &[GONE])
    }

    /// Returns the value of a key of the item that a setting means, by its slug, name or number.
    fn found(
        &self,
        cx: &Exec,
        (path, list, keys): (&str, &str, &[&str]),
        given: &str,
    ) -> Result<Value, Fault> {
        let all = self.all(cx, (path, list, ""))?;
        let names = ["slug", "name", "id", "fingerprint"];
        let fits = |item: &&Value| names.iter().any(|key| field(item, key) == given);
        let found = all.iter().find(fits);
        let value = found.and_then(|item| {
            keys.iter()
                .filter_map(|key| item.get(key))
                .find(|v| v.is_true())
        });
        value.cloned().ok_or_else(|| {
            Fault::wrong(format!(
                "{DIGITALOCEAN}: {list} of the account have no {given:?}"
            ))
        })
    }

    /// Returns the image of a profile. A slug and a number need no request.
    fn image(&self, cx: &Exec, given: &str) -> Result<Value, Fault> {
        if let Ok(number) = given.parse::<i64>() {
            return Ok(number.into());
        }
        match is_slug(given) {
            true => Ok(given.into()),
            false => self.found(cx, ("/images", "images", &["slug", "id"]), given),
        }
    }

    fn region(&self, cx: &Exec, given: &str) -> Result<Value, Fault> {
        match is_slug(given) {
            true => Ok(given.into()),
            false => self.found(cx, ("/regions", "regions", &["slug"]), given),
        }
    }

    /// Returns the numbers of the keys that a profile names.
    fn keys(&self, cx: &Exec, given: Vec<String>) -> Result<Value, Fault> {
        let list = ("/account/keys", "ssh_keys", &["id"][..]);
        let keys = given.iter().map(|name| self.found(cx, list, name));
        Ok(Value::list(keys.collect::<Result<Vec<_>, _>>()?))
    }

    /// Returns the body of the request for a new droplet.
    fn wanted(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Map, Fault> {
        let spec = wanted.spec;
        let need = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| spec.text(key));
            let named = keys.first().copied().unwrap_or_default();
            found.ok_or_else(|| Fault::wrong(format!("{}: the profile has no {named}", spec.name)))
        };
        let tags = spec.get("tags").map(Value::split_input).unwrap_or_default();
        let tags = tags.into_iter().chain([tag(wanted.token)]).map(Value::from);
        let mut body = Map::new()
            .with("name", spec.name.as_str())
            .with("size", need(&["size"])?)
            .with("image", self.image(cx, &need(&["image"])?)?)
            .with("region", self.region(cx, &need(&["location", "region"])?)?)
            .with("tags", Value::list(tags));
        let keys = ["ssh_key_name", "ssh_key_names"].into_iter();
        let keys = keys.filter_map(|key| spec.get(key));
        let keys: Vec<String> = keys.flat_map(Value::split_input).collect();
        if !keys.is_empty() {
            body.insert("ssh_keys", self.keys(cx, keys)?);
        }
        for (name, key) in [
            ("backups", "backups_enabled"),
            ("ipv6", "ipv6"),
            ("monitoring", "monitoring"),
            ("private_networking", "private_networking"),
        ] {
            if spec.get(key).is_some() {
                body.insert(name, spec.flag(key, false));
            }
        }
        if let Some(vpc) = spec.text("vpc_name") {
            let uuid = self.found(cx, ("/vpcs", "vpcs", &["id"]), &vpc)?;
            body.insert("vpc_uuid", uuid);
        }
        if let Some(data) = wanted.user_data {
            body.insert("user_data", data);
        }
        Ok(body)
    }
}

/// Returns whether a text has the form of a slug, as `debian-12-x64`.
fn is_slug(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.bytes().all(is_letter)
}

impl Driver for DigitalOcean {
    fn boot(&self) -> Boot {
        Boot::UserData
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        self.droplets(cx, "")
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let own = self.droplets(cx, &query(&[("tag_name", &tag(wanted.token))]))?;
        if let Some(machine) = own.into_iter().next() {
            return Ok(machine);
        }
        let answer = self.api.post(cx, "/droplets", self.wanted(cx, wanted)?)?;
        let droplet = answer.get("droplet").and_then(machine);
        let mut machine = droplet.ok_or_else(|| self.api.lacks("/droplets", "droplet"))?;
        machine.token = Some(wanted.token.to_owned());
        Ok(machine)
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        self.api.delete(cx, &path(&["droplets", &machine.id]))?;
        // A tag stays when its last droplet is gone.
        if let Some(token) = &machine.token
            && let Err(fault) = self.api.delete(cx, &path(&["tags", &tag(token)]))
        {
            log::warning(format_args!(
                "{}: its tag was not deleted: {fault}",
                machine.name
            ));
        }
        Ok(super::destroyed(&machine.name))
    }

    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        _kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let kind = match fun {
            "start" => "power_on",
            "stop" | "shutdown" => "shutdown",
            "power_off" => "power_off",
            "reboot" => "reboot",
            _ => return Ok(None),
        };
        let path = path(&["droplets", &machine.id, "actions"]);
        let answer = self.api.post(cx, &path, Map::new().with("type", kind))?;
        if field(&answer, "action:id").is_empty() {
            return Err(self.api.lacks(&path, "action"));
        }
        let done = Map::new()
            .with("success", true)
            .with("action", field(&answer, "action:type"))
            .with("state", field(&answer, "action:status"));
        Ok(Some(done.into()))
    }

    fn function(&self, cx: &Exec, fun: &str, _kwargs: &Map) -> Result<Option<Value>, Fault> {
        match fun {
            "list_keypairs" => {
                let keys = self.all(cx, ("/account/keys", "ssh_keys", ""))?;
                Ok(Some(api::by(keys, &["name"]).into()))
            }
            _ => Ok(None),
        }
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        let (path, list, keys) = match offer {
            Offer::Images => ("/images", "images", &["name", "slug", "id"][..]),
            Offer::Sizes => ("/sizes", "sizes", &["slug"][..]),
            Offer::Locations => ("/regions", "regions", &["name", "slug"][..]),
        };
        Ok(api::by(self.all(cx, (path, list, ""))?, keys))
    }
}
