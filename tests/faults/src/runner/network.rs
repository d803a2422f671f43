//! A network namespace for each contender, joined to ours by a pair of virtual cables that can be pulled.

use std::path::Path;

use super::machine::run;

/// The namespaces of one run; gone when it is dropped.
pub(super) struct Network {
    count: usize,
}

impl Network {
    /// Makes so many. What earlier runs left behind, killed in the middle, is removed first.
    pub(super) fn make(count: usize) -> Result<Self, String> {
        sweep();
        let network = Self { count };
        for at in 0..count {
            let (space, cable) = (space(at), cable(at));
            run(&format!("ip netns add {space}"))?;
            run(&format!("ip link add {cable} type veth peer name e0 netns {space}"))?;
            run(&format!("ip addr add {}/30 dev {cable}", address(at)))?;
            run(&format!("ip link set {cable} up"))?;
            run(&format!("ip -n {space} addr add {}/30 dev e0", far(at)))?;
            run(&format!("ip -n {space} link set e0 up"))?;
            run(&format!("ip -n {space} link set lo up"))?;
        }
        Ok(network)
    }

    pub(super) fn space(&self, at: usize) -> String {
        space(at)
    }

    /// Our side of the cable of contender `at`.
    pub(super) fn address(&self, at: usize) -> String {
        address(at)
    }

    /// Pulls the cable: packets vanish, and nobody is told.
    pub(super) fn cut(&self, at: usize) -> Result<(), String> {
        run(&format!("ip link set {} down", cable(at)))
    }

    pub(super) fn mend(&self, at: usize) -> Result<(), String> {
        run(&format!("ip link set {} up", cable(at)))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for at in 0..self.count {
            let _ = run(&format!("ip link del {}", cable(at)));
            let _ = run(&format!("ip netns del {}", space(at)));
        }
    }
}

fn space(at: usize) -> String {
    format!("fl{}n{at}", std::process::id())
}

fn cable(at: usize) -> String {
    format!("fl{}h{at}", std::process::id())
}

/// A network of its own for each run: 10.64.0.0 to 10.191.255.252.
fn address(at: usize) -> String {
    let id = std::process::id();
    format!("10.{}.{}.{}", 64 + id % 128, id / 128 % 256, at * 4 + 1)
}

fn far(at: usize) -> String {
    let id = std::process::id();
    format!("10.{}.{}.{}", 64 + id % 128, id / 128 % 256, at * 4 + 2)
}

fn sweep() {
    for name in std::fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.file_name())
    {
        let name = name.to_string_lossy().into_owned();
        let Some((pid, at)) = name.strip_prefix("fl").and_then(|rest| rest.split_once('n')) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = run(&format!("ip link del fl{pid}h{at}"));
            let _ = run(&format!("ip netns del {name}"));
        }
    }
}
