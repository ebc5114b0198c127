//! Password hashes in the formats of `/etc/shadow`: `$1$` (MD5), `$5$` (SHA-256) and `$6$`
//! (SHA-512).

use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use state::module::Error;
use value::random;

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DEFAULT_ROUNDS: usize = 5000;
const LONGEST_SHA_SALT: usize = 16;
const LONGEST_MD5_SALT: usize = 8;

/// The names of the algorithms with their marks.
const MARKS: [(&str, &str); 3] = [("sha512", "6"), ("sha256", "5"), ("md5", "1")];

type Hash = fn(&[&[u8]]) -> Vec<u8>;

/// Hashes a password. The salt may start with `rounds=N$`; without a salt, a random one is used.
///
/// # Errors
/// For an unknown algorithm, or a salt that is not allowed in a line of `/etc/shadow`.
pub fn hash(password: &str, salt: Option<&str>, algorithm: &str) -> Result<String, Error> {
    let mark = MARKS.iter().find(|known| known.0 == algorithm);
    let Some((_, mark)) = mark else {
        let known: Vec<String> = MARKS.map(|known| format!("'{}'", known.0)).into();
        return Err(Error::refused(format!(
            "Cannot hash using '{algorithm}' hash algorithm. Natively supported algorithms are: [{}].",
            known.join(", ")
        )));
    };
    let salt = match salt {
        Some(salt) => salt.to_owned(),
        None => random_salt()?,
    };
    if salt.contains([':', '\n', '\0']) {
        return Err("A salt must not contain a colon, a line break or a NUL byte".into());
    }
    Ok(of_mark(password, mark, &salt))
}

/// Hashes a password with the algorithm, rounds and salt of an existing hash. Returns `None` when
/// the hash is of an unsupported kind.
pub fn hash_like(password: &str, existing: &str) -> Option<String> {
    let (mark, rest) = existing.strip_prefix('$')?.split_once('$')?;
    let (salt, _) = rest.rsplit_once('$')?;
    MARKS
        .iter()
        .any(|known| known.1 == mark)
        .then(|| of_mark(password, mark, salt))
}

fn random_salt() -> Result<String, Error> {
    let letter = |byte: &u8| ALPHABET.get(usize::from(byte & 63)).copied();
    let bytes: [u8; LONGEST_SHA_SALT] = random::array()?;
    let letters = bytes.iter().filter_map(letter).map(char::from);
    Ok(letters.collect())
}

fn of_mark(password: &str, mark: &str, salt: &str) -> String {
    match mark {
        "1" => md5(password.as_bytes(), cut(salt, LONGEST_MD5_SALT)),
        "5" => sha(password.as_bytes(), "5", salt, digest::<Sha256>),
        _ => sha(password.as_bytes(), "6", salt, digest::<Sha512>),
    }
}

fn digest<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = D::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_vec()
}

fn cut(salt: &str, most: usize) -> &str {
    let salt = salt.split('$').next().unwrap_or_default();
    let end = salt
        .char_indices()
        .map(|(at, letter)| at + letter.len_utf8());
    salt.get(..end.take_while(|end| *end <= most).last().unwrap_or(0))
        .unwrap_or_default()
}

/// Repeats the bytes up to a length.
fn repeated(bytes: &[u8], length: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(length).collect()
}

fn sha(password: &[u8], mark: &str, salt: &str, hash: Hash) -> String {
    let given = salt
        .strip_prefix("rounds=")
        .and_then(|rest| rest.split_once('$'));
    let (rounds, salt) = match given.and_then(|(n, rest)| Some((n.parse::<usize>().ok()?, rest))) {
        Some((rounds, rest)) => (Some(rounds.clamp(1000, 999_999_999)), rest),
        None => (None, salt),
    };
    let salt = cut(salt, LONGEST_SHA_SALT);
    let sum = sha_rounds(
        password,
        salt.as_bytes(),
        rounds.unwrap_or(DEFAULT_ROUNDS),
        hash,
    );
    let shown = rounds.map(|rounds| format!("rounds={rounds}$"));
    format!(
        "${mark}${}{salt}${}",
        shown.unwrap_or_default(),
        sha_text(&sum)
    )
}

fn sha_rounds(password: &[u8], salt: &[u8], rounds: usize, hash: Hash) -> Vec<u8> {
    let inner = hash(&[password, salt, password]);
    let filler = repeated(&inner, password.len());
    let mut parts: Vec<&[u8]> = vec![password, salt, &filler];
    let mut bits = password.len();
    while bits > 0 {
        parts.push(if bits & 1 == 1 { &inner } else { password });
        bits >>= 1;
    }
    let mut sum = hash(&parts);
    let password = repeated(&hash(&vec![password; password.len()]), password.len());
    let times = 16 + usize::from(sum.first().copied().unwrap_or_default());
    let salt = repeated(&hash(&vec![salt; times]), salt.len());
    for round in 0..rounds {
        sum = stirred(round, &sum, &password, &salt, hash);
    }
    sum
}

/// Computes one round, which all three algorithms have in common.
fn stirred(round: usize, sum: &[u8], password: &[u8], salt: &[u8], hash: Hash) -> Vec<u8> {
    let (first, last) = if round % 2 == 1 {
        (password, sum)
    } else {
        (sum, password)
    };
    let third = if round.is_multiple_of(3) { &[] } else { salt };
    let seventh = if round.is_multiple_of(7) {
        &[]
    } else {
        password
    };
    hash(&[first, third, seventh, last])
}

fn sha_text(sum: &[u8]) -> String {
    let mut out = String::new();
    let long = sum.len() == 64;
    let third = if long { 21 } else { 10 };
    let (mut a, mut b, mut c) = (0, third, 2 * third);
    for _ in 0..third {
        letters(&mut out, sum, [Some(a), Some(b), Some(c)], 4);
        (a, b, c) = if long {
            (b + 1, c + 1, a + 1)
        } else {
            (c + 1, a + 1, b + 1)
        };
    }
    if long {
        letters(&mut out, sum, [None, None, Some(63)], 2);
    } else {
        letters(&mut out, sum, [None, Some(31), Some(30)], 3);
    }
    out
}

fn letters(out: &mut String, sum: &[u8], at: [Option<usize>; 3], count: usize) {
    let byte = |at: Option<usize>| at.and_then(|at| sum.get(at)).copied().unwrap_or_default();
    let mut word = at
        .into_iter()
        .fold(0_usize, |word, at| word << 8 | usize::from(byte(at)));
    for _ in 0..count {
        out.extend(ALPHABET.get(word & 63).copied().map(char::from));
        word >>= 6;
    }
}

fn md5(password: &[u8], salt: &str) -> String {
    let hash: Hash = digest::<Md5>;
    let salted = salt.as_bytes();
    let filler = repeated(&hash(&[password, salted, password]), password.len());
    let mut parts: Vec<&[u8]> = vec![password, b"$1$", salted, &filler];
    let start = password.get(..1).unwrap_or_default();
    let mut bits = password.len();
    while bits > 0 {
        parts.push(if bits & 1 == 1 { &[0] } else { start });
        bits >>= 1;
    }
    let mut sum = hash(&parts);
    for round in 0..1000 {
        sum = stirred(round, &sum, password, salted, hash);
    }
    let mut out = format!("$1${salt}$");
    for a in 0..5 {
        let last = if a == 4 { 5 } else { a + 12 };
        letters(&mut out, &sum, [Some(a), Some(a + 6), Some(last)], 4);
    }
    letters(&mut out, &sum, [None, None, Some(11)], 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_crypt() {
        let of = |salt, algorithm| hash("Hello world!", Some(salt), algorithm).unwrap();
        let sha256 = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        let rounds = "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA";
        let sha512 = "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
        let md5 = "$1$saltstri$YMyguxXMBpd2TEZ.vS/3q1";
        assert_eq!(of("saltstring", "sha256"), sha256);
        assert_eq!(of("rounds=10000$saltstringsaltstring", "sha256"), rounds);
        assert_eq!(of("saltstring", "sha512"), sha512);
        assert_eq!(of("saltstring", "md5"), md5);
        for made in [sha256, rounds, sha512, md5] {
            assert_eq!(hash_like("Hello world!", made).as_deref(), Some(made));
        }
        assert_eq!(hash_like("x", "$y$j9T$salt$hash"), None);
        assert_eq!(hash_like("x", "!"), None);
        assert_eq!(
            hash("", Some("x"), "md5").unwrap(),
            "$1$x$fwjfZtMwarkdetsjiQreU1"
        );
        assert!(hash("x", None, "blowfish").is_err());
        assert_ne!(
            hash("x", None, "md5").unwrap(),
            hash("x", None, "md5").unwrap()
        );
    }
}
