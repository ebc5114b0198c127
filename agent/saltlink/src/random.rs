//! The kernel's random bytes, for the crate `rsa`.

use rsa::rand_core::{TryCryptoRng, TryRng};
use value::python::hex;
use value::random;

/// The kernel's generator.
pub(crate) struct Kernel;

impl TryRng for Kernel {
    type Error = random::Error;

    fn try_next_u32(&mut self) -> Result<u32, random::Error> {
        Ok(u32::from_ne_bytes(random::array()?))
    }

    fn try_next_u64(&mut self) -> Result<u64, random::Error> {
        Ok(u64::from_ne_bytes(random::array()?))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), random::Error> {
        random::bytes(bytes)
    }
}

impl TryCryptoRng for Kernel {}

/// Returns a new nonce: 32 hexadecimal digits.
pub(crate) fn nonce() -> Result<String, random::Error> {
    Ok(hex(&random::array::<16>()?))
}
