//! Ports that stay reserved while a server is down.
//!
//! Asking the kernel for a free port and closing it again invites flakes: the kernel may hand the
//! same number to any outgoing connection before the server binds it, or while the server restarts.
//! Ports below the kernel's own range are never handed out, and a lock file per port keeps other
//! fleets of this user away.

use std::{
    fs::{self, File},
    net::TcpListener,
    ops::Range,
};

use anyhow::{Context, Result, bail};

use crate::parts::cache_root;

/// How many numbers below the kernel's range are used: enough for 100 fleets of 100 servers.
const WIDTH: u16 = 10_000;

/// A loopback port reserved for as long as this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port on which no process listens.
    pub fn reserve() -> Result<Self> {
        let folder = cache_root()?.join("ports");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        for _ in 0..1_000 {
            let number = rand::random_range(range());
            let path = folder.join(number.to_string());
            let lock =
                File::create(&path).with_context(|| format!("creating {}", path.display()))?;
            let is_ours = lock.try_lock().is_ok();
            if is_ours && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        bail!("no free port in {:?} after 1,000 tries", range())
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

fn range() -> Range<u16> {
    let first_of_kernel = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<u16>().ok())
        .unwrap_or(32_768);
    // A machine whose kernel uses nearly all ports leaves no room below: share the usual numbers
    // with it.
    let end = if first_of_kernel > WIDTH + 2_000 {
        first_of_kernel
    } else {
        32_768
    };
    (end - WIDTH)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reservations_never_share_a_port() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
    }
}
