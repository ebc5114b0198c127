//! The members of the cluster: the leader lets masters join, gives them a vote when they have caught
//! up, and removes others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cluster::core::Member;
use cluster::raft::Status;
use link::PublicKey;
use link::pool::{Exported, Request};
use link::wait::pause;
use value::{Map, Value, log};
use wire::Id;

use super::join::{Answer, Claim, End, Join, Joined};
use super::requests::{Ask, Change, What};
use super::settings::MASTERS_MAX;
use super::{Cluster, lock, tokens};
use crate::events::Events;
use crate::store::{Applied, KeyState, now_ms};

/// The number of entries by which a master without a vote may be behind to get one.
const BEHIND_MAX: u64 = 1000;
/// The time after which a member that does not answer may be replaced by one with the same name.
const DEAD_AFTER: Duration = Duration::from_secs(5);
/// The maximum number of masters that wait for an administrator.
const PENDING_MAX: usize = 16;
/// The time after its last request for which a master waits for an administrator.
const PENDING_TIME: Duration = Duration::from_secs(60);
/// The maximum time for a change of the members on the leader.
const CHANGE_MAX: Duration = Duration::from_secs(30);

/// The grounds on which a master may join.
enum Grounds {
    /// None yet: an administrator decides.
    None,
    /// It knows the secret of the cluster.
    Secret,
    /// It knows a token.
    Token(tokens::Proved),
}

/// The event about a master that waits for an administrator.
const PENDING: &str = "salt/cluster/join/pending";

/// The masters that want to join and cannot prove that they know the secret, by name.
#[derive(Default)]
pub(super) struct Pending(Mutex<BTreeMap<String, Waits>>);

struct Waits {
    key: PublicKey,
    address: String,
    is_accepted: bool,
    /// The time of its last request.
    at: Instant,
}

impl Pending {
    /// Returns whether an administrator has accepted a master. Otherwise it waits from now on.
    /// Returns true with the second value if it did not wait before.
    fn is_accepted(&self, join: &Join, key: &PublicKey) -> Result<(bool, bool), String> {
        let mut all = lock(&self.0);
        all.retain(|_, waits| waits.at.elapsed() < PENDING_TIME);
        if let Some(waits) = all.get_mut(&join.name) {
            // Another key would be accepted in place of the one whose fingerprint was compared.
            if waits.key != *key {
                return Err(format!(
                    "another master waits under the name {}, with the key {}: stop it, and try again after {} s",
                    join.name,
                    waits.key.finger(),
                    PENDING_TIME.as_secs()
                ));
            }
            waits.at = Instant::now();
            return Ok((waits.is_accepted, false));
        }
        if all.len() >= PENDING_MAX {
            return Err(format!("{PENDING_MAX} masters wait for acceptance already"));
        }
        let waits = Waits {
            key: *key,
            address: join.address.clone(),
            is_accepted: false,
            at: Instant::now(),
        };
        all.insert(join.name.clone(), waits);
        Ok((false, true))
    }

    fn accept(&self, name: &str) -> Result<Value, String> {
        let mut all = lock(&self.0);
        let Some(waits) = all.get_mut(name) else {
            let names: Vec<&str> = all.keys().map(String::as_str).collect();
            let who = match names.is_empty() {
                true => "none waits".to_owned(),
                false => format!("these wait: {}", names.join(", ")),
            };
            let name = name.escape_debug();
            return Err(format!("No master {name} waits to join; {who}"));
        };
        waits.is_accepted = true;
        Ok(Map::new()
            .with("name", name)
            .with("address", waits.address.as_str())
            .with("finger", waits.key.finger())
            .into())
    }

    fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}

/// The next change of the members that the leader makes by itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    promoted: BTreeSet<u64>,
    removed: BTreeSet<u64>,
}

/// Returns the next change: a master that has caught up gets a vote, and takes the place of the one
/// that had its name before.
fn step(status: &Status, voters_max: usize) -> Option<Step> {
    let mut step = Step::default();
    let learners = status
        .members
        .iter()
        .filter(|(number, _)| !status.voters.contains(number));
    for (number, member) in learners {
        let is_older = |other: &&u64| {
            let of_other = status.members.get(*other);
            *other < number && of_other.is_some_and(|other| other.name == member.name)
        };
        let old: BTreeSet<u64> = status.members.keys().filter(is_older).copied().collect();
        let newer = |other: &u64| {
            let of_other = status.members.get(other);
            other > number && of_other.is_some_and(|other| other.name == member.name)
        };
        if status.members.keys().any(newer) {
            // It joined once more, with an empty disk.
            step.removed.insert(*number);
            return Some(step);
        }
        let follower = status.followers.get(number).copied().unwrap_or_default();
        let is_near = follower.matched > 0 && follower.matched + BEHIND_MAX >= status.last;
        let replaced = old.intersection(&status.voters).count();
        let has_room = status.voters.len() - replaced < voters_max;
        if is_near && (has_room || !old.is_empty()) {
            if has_room {
                step.promoted.insert(*number);
            }
            step.removed = old;
            return (step != Step::default()).then_some(step);
        }
    }
    None
}

/// Returns the error about a name that no member has.
pub(super) fn no_master(status: &Status, name: &str) -> String {
    let names = status.members.values().map(|one| one.name.as_str());
    let names: BTreeSet<&str> = names.collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!(
        "The cluster has no master {}; it has {}",
        name.escape_debug(),
        names.join(", ")
    )
}

impl Cluster {
    /// Gives votes to masters that have caught up, if this one leads and no other change of the
    /// members is under way. Does not wait for the change.
    pub(super) fn lead_members(&self, status: &Status) {
        if !status.leads() || status.is_joint {
            return;
        }
        let Some(step) = step(status, self.0.settings.voters_max) else {
            return;
        };
        let Some(changing) = self.0.changing.try_lock_arc() else {
            return;
        };
        let cluster = self.clone();
        smol::spawn(async move {
            cluster.make(step).await;
            drop(changing);
        })
        .detach();
    }

    async fn make(&self, step: Step) {
        let (promoted, removed) = (self.names(&step.promoted), self.names(&step.removed));
        let replaced = async {
            self.release_tokens(&step.removed).await?;
            let replaced = self.0.group.replace(step.promoted, step.removed).await;
            replaced.map_err(|error| error.to_string())
        };
        match replaced.await {
            Ok(()) => log::info(format_args!(
                "The members of the cluster have changed: with a vote now: [{promoted}]; removed: [{removed}]"
            )),
            Err(error) => {
                log::warning(format_args!("{error}"));
                pause(Duration::from_secs(1)).await;
            }
        }
    }

    fn names(&self, numbers: &BTreeSet<u64>) -> String {
        let names: Vec<String> = numbers
            .iter()
            .map(|number| format!("{} ({number})", self.name(*number)))
            .collect();
        names.join(", ")
    }

    /// Answers a master that wants to join.
    pub(super) async fn answer_join(&self, request: Request) {
        let bytes = request.bytes.get(1..).unwrap_or_default();
        let (exported, settings) = (request.exported, &self.0.settings);
        let (answer, key) = match Join::decode(bytes) {
            None => {
                let why = "the request has an unknown form".to_owned();
                (Answer::Refused(why), settings.key())
            }
            Some(join) if join.cluster != settings.cluster => {
                let why = format!(
                    "{} is a master of the cluster {}, not {}",
                    settings.name, settings.cluster, join.cluster
                );
                (Answer::Refused(why), settings.key())
            }
            Some(join) if join.founded_us.is_some() => {
                // The master that asks warns about it.
                let answer = self.answer_member(&join, &request.key);
                return request.answer(&answer.encode(None)).await;
            }
            Some(join) => {
                let grounds = self.grounds(&join, &exported).await;
                let key = match &grounds {
                    Ok(Grounds::Token(token)) => Some(token.key()),
                    _ => settings.key(),
                };
                (self.joined(&join, &request.key, grounds).await, key)
            }
        };
        if let Answer::Refused(why) = &answer {
            self.0.warnings.warn(format_args!(
                "The master at {} with the key {} cannot join: {why}",
                request.from,
                request.key.finger()
            ));
        }
        let proof = key.map(|key| key.proof(&settings.cluster, End::Member, &exported));
        request.answer(&answer.encode(proof)).await;
    }

    /// Returns the grounds on which a master wants to join, or why its proof is not accepted.
    async fn grounds(&self, join: &Join, exported: &Exported) -> Result<Grounds, String> {
        match &join.claim {
            Claim::Nothing => Ok(Grounds::None),
            Claim::Secret(proof) => {
                let key = self.0.settings.key();
                let is_proved = key.is_some_and(|key| {
                    key.is_proved(&join.cluster, End::Joining, exported, Some(proof))
                });
                match is_proved {
                    true => Ok(Grounds::Secret),
                    false => Err("its `cluster_secret` is not that of the cluster".to_owned()),
                }
            }
            Claim::Token(shown) => {
                let (store, shown) = (self.0.store.clone(), shown.clone());
                let (cluster, exported) = (join.cluster.clone(), *exported);
                let proved =
                    smol::unblock(move || tokens::proved(&store, &cluster, &shown, &exported));
                proved.await.map(Grounds::Token)
            }
        }
    }

    /// Lets a master join, if this one leads.
    async fn joined(
        &self,
        join: &Join,
        key: &PublicKey,
        grounds: Result<Grounds, String>,
    ) -> Answer {
        let status = self.status();
        if !status.leads() {
            let leader = status.leading().and_then(|(_, leader)| {
                let key = leader.key.as_slice().try_into().ok()?;
                Some(Answer::Leader {
                    address: leader.address.clone(),
                    finger: Some(PublicKey::from_bytes(key).finger()),
                })
            });
            let none = || Answer::Wait("the cluster has no leader at present".to_owned());
            return leader.unwrap_or_else(none);
        }
        if !join.is_empty {
            return Answer::Refused(
                "it has keys or tokens already, which would be lost: move its folders `store` and of keys (`minions`, …) away to join"
                    .to_owned(),
            );
        }
        let grounds = match grounds {
            Ok(grounds) => grounds,
            Err(why) => return Answer::Refused(why),
        };
        if matches!(grounds, Grounds::None)
            && let Some(answer) = self.waits(join, key).await
        {
            return answer;
        }
        match self.minion_with(key).await {
            Ok(None) => {}
            Ok(Some(id)) => {
                return Answer::Refused(format!(
                    "the minion {id} has the same key: remove the file `master.pem` from the `pki_dir` of the master, and start the master, which generates a new key"
                ));
            }
            Err(why) => return Answer::Wait(why),
        }
        let _changing = self.0.changing.lock().await;
        if let Err(why) = self.is_too_old(join) {
            return Answer::Refused(why);
        }
        if let Err(why) = self.has_room(join, key) {
            return Answer::Wait(why);
        }
        let by = match &grounds {
            Grounds::Token(token) => match self.use_token(token, join, key).await {
                Ok(()) => format!(" with the token {}", token.name),
                Err(answer) => return answer,
            },
            _ => String::new(),
        };
        match self.added(join, key).await {
            Ok(joined) => {
                self.0.pending.forget(&join.name);
                log::info(format_args!(
                    "The master {} has joined as number {}{by}",
                    join.name, joined.number
                ));
                Answer::Joined(joined)
            }
            Err(why) => Answer::Wait(why),
        }
    }

    /// Returns the minion that has a key, accepted or not.
    async fn minion_with(&self, key: &PublicKey) -> Result<Option<Id>, String> {
        let (store, key) = (self.0.store.clone(), *key);
        let find = move || {
            for state in KeyState::ALL {
                for of in store.keys(state)? {
                    let of = of?;
                    if of.key == key {
                        return Ok(Some(of.id));
                    }
                }
            }
            Ok(None)
        };
        let found: Result<_, crate::store::Error> = smol::unblock(find).await;
        found.map_err(|error| error.to_string())
    }

    /// Returns an error about a master that cannot apply what this cluster has agreed on.
    fn is_too_old(&self, join: &Join) -> Result<(), String> {
        let levels = self.status().members;
        let level = levels.values().map(|member| member.level).min();
        match level.is_some_and(|level| join.level < level) {
            true => Err("it runs an earlier release than the masters of this cluster: install the same release".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the answer to a master without a proof, unless an administrator has accepted it.
    async fn waits(&self, join: &Join, key: &PublicKey) -> Option<Answer> {
        match self.0.pending.is_accepted(join, key) {
            Err(why) => Some(Answer::Refused(why)),
            Ok((true, _)) => None,
            Ok((false, is_new)) => {
                if is_new {
                    self.tell_pending(join, key).await;
                }
                Some(Answer::Wait(format!(
                    "it waits for acceptance: check its fingerprint ({}) and run `salt-run cluster.accept {}` on a member",
                    key.finger(),
                    join.name
                )))
            }
        }
    }

    /// Counts a use of a token, unless one is counted for this key already.
    async fn use_token(
        &self,
        token: &tokens::Proved,
        join: &Join,
        key: &PublicKey,
    ) -> Result<(), Answer> {
        let is_member = super::keys_of(&self.status().members).contains(key.bytes());
        let used = token.used(&join.name, (key, is_member), now_ms());
        let Some(used) = used.map_err(Answer::Refused)? else {
            return Ok(());
        };
        // The request is repeated: the token may have been used at another master.
        let again = |why: String| Answer::Wait(why);
        let applied = self.0.store.apply(used).await;
        match applied.map_err(|error| again(error.to_string()))? {
            Applied::Refused(why) => Err(again(why.to_string())),
            _ => Ok(()),
        }
    }

    /// Returns why there is no place for a master at present.
    fn has_room(&self, join: &Join, key: &PublicKey) -> Result<(), String> {
        let status = self.status();
        let same = status
            .members
            .iter()
            .filter(|(_, member)| member.name == join.name);
        for (number, member) in same.clone() {
            let silent = status
                .followers
                .get(number)
                .and_then(|follower| follower.silent);
            let is_up = *number == status.node || silent.is_some_and(|silent| silent < DEAD_AFTER);
            if is_up && member.key != key.bytes() {
                return Err(format!("{} is the name of a member that is up", join.name));
            }
        }
        if status.members.len() - same.count() >= MASTERS_MAX {
            return Err(format!(
                "the cluster has {MASTERS_MAX} masters, the maximum"
            ));
        }
        Ok(())
    }

    async fn added(&self, join: &Join, key: &PublicKey) -> Result<Joined, String> {
        let member = Member {
            name: join.name.clone(),
            address: join.address.clone(),
            minions: join.minions.clone(),
            key: key.bytes().to_vec(),
            level: join.level,
        };
        let number = self
            .0
            .group
            .add(member)
            .await
            .map_err(|error| error.to_string())?;
        let status = self.status();
        let keys = super::keys_of(&status.members).into_iter();
        Ok(Joined {
            number,
            founded_us: self.0.node.founded_us,
            index: status.last,
            keys: keys.map(PublicKey::from_bytes).collect(),
        })
    }

    async fn tell_pending(&self, join: &Join, key: &PublicKey) {
        log::warning(format_args!(
            "The master {} ({}) wants to join with the key {}: `salt-run cluster.accept {}` lets it",
            join.name,
            join.address,
            key.finger(),
            join.name
        ));
        let data = Map::new()
            .with("name", join.name.as_str())
            .with("address", join.address.as_str())
            .with("finger", key.finger());
        let events = Events::new(self.0.store.clone());
        events.fire(PENDING, data).await;
    }

    /// Makes a change of the members that an administrator wants: here if this master leads, or else
    /// through the leader.
    pub(crate) async fn change_members(&self, change: Change) -> Result<Value, String> {
        if let Some(why) = self.minority() {
            return Err(why);
        }
        let status = self.status();
        let leader = status
            .leader
            .ok_or("The cluster has no leader at present")?;
        match leader == status.node {
            true => self.change_here(&change).await,
            false => self.ask(leader, &Ask::Members(change), CHANGE_MAX).await,
        }
    }

    pub(super) async fn change_here(&self, change: &Change) -> Result<Value, String> {
        if change.what == What::Accept {
            return self.0.pending.accept(&change.name);
        }
        let status = self.status();
        if !status.leads() {
            return Err("Another master leads by now: try again".to_owned());
        }
        let named = |(_, member): &(&u64, &Member)| member.name == change.name;
        let numbers: BTreeSet<u64> = status
            .members
            .iter()
            .filter(named)
            .map(|(n, _)| *n)
            .collect();
        if numbers.is_empty() {
            return Err(no_master(&status, &change.name));
        }
        let done = match change.what {
            What::TransferLeader => self.transfer(&status, &numbers).await,
            _ => self.remove(&status, numbers, change.force).await,
        };
        done.map(|()| true.into())
    }

    async fn transfer(&self, status: &Status, numbers: &BTreeSet<u64>) -> Result<(), String> {
        if numbers.contains(&status.node) {
            return Ok(());
        }
        let voter = numbers.iter().find(|number| status.voters.contains(number));
        let voter = voter.ok_or("A master without a vote cannot lead")?;
        if !self.0.others.alive().contains(voter) {
            return Err(format!(
                "{} does not answer, and cannot lead: start it first",
                self.name(*voter)
            ));
        }
        let handed = self.0.group.hand_over(*voter).await;
        handed.map_err(|error| error.to_string())
    }

    /// Removes a member. The leader cannot remove itself before another one leads.
    async fn remove(
        &self,
        status: &Status,
        numbers: BTreeSet<u64>,
        force: bool,
    ) -> Result<(), String> {
        if numbers.contains(&status.node) {
            return Err(format!(
                "{} leads the cluster: run `salt-run cluster.transfer_leader NAME` before it is removed",
                self.0.settings.name
            ));
        }
        let alive = self.0.others.alive();
        let left: BTreeSet<&u64> = status
            .voters
            .iter()
            .filter(|voter| !numbers.contains(voter))
            .collect();
        let up = left
            .iter()
            .filter(|voter| ***voter == status.node || alive.contains(**voter));
        let (up, all) = (up.count(), left.len());
        if up * 2 <= all && !force {
            return Err(format!(
                "Only {up} of the {all} voters that would be left are up, which is no majority: start the others first, or add force=True"
            ));
        }
        if !force {
            let removed = numbers
                .iter()
                .filter_map(|number| status.members.get(number));
            self.is_not_sole_owner(&removed.map(|of| of.name.as_str()).collect())?;
        }
        let _changing = self.0.changing.lock().await;
        self.release_tokens(&numbers).await?;
        let removed = self.0.group.replace(BTreeSet::new(), numbers).await;
        removed.map_err(|error| error.to_string())
    }

    /// Takes from members that are to be removed the uses of tokens by which they have joined, so that
    /// they cannot join again with them. The uses stay counted.
    async fn release_tokens(&self, numbers: &BTreeSet<u64>) -> Result<(), String> {
        let members = self.status().members;
        let (gone, left): (BTreeMap<_, _>, BTreeMap<_, _>) = members
            .into_iter()
            .partition(|(number, _)| numbers.contains(number));
        let left = super::keys_of(&left);
        let mut keys = super::keys_of(&gone);
        keys.retain(|key| !left.contains(key));
        let keys: Vec<PublicKey> = keys.into_iter().map(PublicKey::from_bytes).collect();
        let store = self.0.store.clone();
        let changes = smol::unblock(move || tokens::released(&store, &keys)).await?;
        match changes.is_empty() {
            true => Ok(()),
            false => self.0.store.apply_all(changes).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::raft::Follower;

    fn status(voters: &[u64], members: &[(u64, &str)], matched: &[(u64, u64)]) -> Status {
        let member = |(number, name): &(u64, &str)| {
            let member = Member {
                name: (*name).to_owned(),
                ..Member::default()
            };
            (*number, member)
        };
        let follower = |(number, matched): &(u64, u64)| {
            let follower = Follower {
                matched: *matched,
                silent: None,
            };
            (*number, follower)
        };
        Status {
            node: 1,
            last: 5000,
            voters: voters.iter().copied().collect(),
            members: members.iter().map(member).collect(),
            followers: matched.iter().map(follower).collect(),
            ..Status::default()
        }
    }

    fn changed(promoted: &[u64], removed: &[u64]) -> Option<Step> {
        Some(Step {
            promoted: promoted.iter().copied().collect(),
            removed: removed.iter().copied().collect(),
        })
    }

    fn join(name: &str) -> Join {
        Join {
            cluster: "prod".to_owned(),
            name: name.to_owned(),
            address: format!("{name}:4520"),
            minions: format!("{name}:4506"),
            level: 1,
            is_empty: true,
            founded_us: None,
            claim: Claim::Nothing,
        }
    }

    #[test]
    fn a_stranger_cannot_take_the_place_of_a_master_that_waits() {
        let pending = Pending::default();
        let [key, other] = [1, 2].map(|byte| PublicKey::from_bytes([byte; 32]));
        let (own, name) = (join("10.0.0.4"), "10.0.0.4");
        assert_eq!(pending.is_accepted(&own, &key), Ok((false, true)));
        // Attack: another key under this name, before and after the administrator has compared.
        for _ in 0..2 {
            let why = pending.is_accepted(&own, &other).unwrap_err();
            assert!(why.contains(&key.finger()), "{why}");
            pending.accept(name).unwrap();
        }
        assert_eq!(pending.is_accepted(&own, &key), Ok((true, false)));
        // Attack: many names.
        for number in 1..PENDING_MAX {
            let more = join(&format!("10.0.1.{number}"));
            assert_eq!(pending.is_accepted(&more, &other), Ok((false, true)));
        }
        let why = pending.is_accepted(&join("10.0.2.1"), &other);
        assert!(why.unwrap_err().contains("wait for acceptance already"));
        // The name of a master that no longer asks is free.
        let past = Instant::now().checked_sub(PENDING_TIME).unwrap();
        lock(&pending.0)
            .values_mut()
            .for_each(|waits| waits.at = past);
        assert_eq!(pending.is_accepted(&own, &other), Ok((false, true)));
    }

    #[test]
    fn a_master_gets_a_vote_when_it_has_caught_up_and_there_is_room() {
        let members = [(1, "a"), (7, "b")];
        assert_eq!(step(&status(&[1], &members, &[(7, 3000)]), 5), None);
        assert_eq!(
            step(&status(&[1], &members, &[(7, 4500)]), 5),
            changed(&[7], &[])
        );
        assert_eq!(step(&status(&[1], &members, &[(7, 5000)]), 1), None);
    }

    #[test]
    fn a_master_with_a_new_disk_takes_the_place_of_the_old_one() {
        let members = [(1, "a"), (2, "b"), (9, "b")];
        let caught_up = status(&[1, 2], &members, &[(2, 0), (9, 5000)]);
        assert_eq!(step(&caught_up, 2), changed(&[9], &[2]));
        let behind = status(&[1, 2], &members, &[(2, 5000), (9, 10)]);
        assert_eq!(step(&behind, 2), None);
        let twice = [(1, "a"), (8, "b"), (9, "b")];
        let twice = status(&[1], &twice, &[(8, 0), (9, 0)]);
        assert_eq!(step(&twice, 5), changed(&[], &[8]));
    }
}
