//! One process's wall clock: its vDSO, written anew so that CLOCK_REALTIME is some seconds ahead.
//!
//! libc, and rustix, ask the vDSO for the time (`vdso(7)`). A debugger may write into that mapping, upon which the kernel gives the
//! process a copy of the page that it alone has (as for a breakpoint in shared code). What is written asks the kernel by system call
//! and adds a number that lies beside it; after that a jump is one store, at any moment, and nobody traces the process.
//!
//! Invariant: no other process is touched, and what the process executes later has the host's clock again. What does not ask the
//! vDSO has the host's too: system calls made directly, timers on CLOCK_REALTIME, stamps of files.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::Context as _;
use elf::ElfBytes;
use elf::endian::NativeEndian;
use rustix::process::{Pid, Signal, kill_process};

use crate::service::Process;

/// What takes the place of `__vdso_clock_gettime`, for the `System V` calling convention of x86-64. `%rcx` and `%r11` are the system
/// call's own losses. The last eight bytes are the seconds, which are read relative to the instruction.
const CODE: [u8; 0x68] = [
    0xb8, 0xe4, 0x00, 0x00, 0x00, // 00: mov $__NR_clock_gettime, %eax
    0x0f, 0x05, // 05: syscall
    0x85, 0xc0, // 07: test %eax, %eax
    0x75, 0x18, // 09: jne 23
    0x85, 0xff, // 0b: test %edi, %edi                 CLOCK_REALTIME
    0x74, 0x0a, // 0d: je 19
    0x83, 0xff, 0x05, // 0f: cmp $5, %edi              CLOCK_REALTIME_COARSE
    0x74, 0x05, // 12: je 19
    0x83, 0xff, 0x0b, // 14: cmp $11, %edi             CLOCK_TAI
    0x75, 0x0a, // 17: jne 23
    0x48, 0x8b, 0x0d, 0x40, 0x00, 0x00, 0x00, // 19: mov 60(%rip), %rcx
    0x48, 0x01, 0x0e, // 20: add %rcx, (%rsi)
    0xc3, // 23: ret
    0xb8, 0x60, 0x00, 0x00, 0x00, // 24: mov $__NR_gettimeofday, %eax
    0x0f, 0x05, // 29: syscall
    0x85, 0xc0, // 2b: test %eax, %eax
    0x75, 0x0f, // 2d: jne 3e
    0x48, 0x85, 0xff, // 2f: test %rdi, %rdi
    0x74, 0x0a, // 32: je 3e
    0x48, 0x8b, 0x0d, 0x25, 0x00, 0x00, 0x00, // 34: mov 60(%rip), %rcx
    0x48, 0x01, 0x0f, // 3b: add %rcx, (%rdi)
    0xc3, // 3e: ret
    0x48, 0x89, 0xfe, // 3f: mov %rdi, %rsi
    0x31, 0xff, // 42: xor %edi, %edi
    0xb8, 0xc9, 0x00, 0x00, 0x00, // 44: mov $__NR_time, %eax
    0x0f, 0x05, // 49: syscall
    0x48, 0x03, 0x05, 0x0e, 0x00, 0x00, 0x00, // 4b: add 60(%rip), %rax
    0x48, 0x85, 0xf6, // 52: test %rsi, %rsi
    0x74, 0x03, // 55: je 5a
    0x48, 0x89, 0x06, // 57: mov %rax, (%rsi)
    0xc3, // 5a: ret
    0xcc, 0xcc, 0xcc, 0xcc, 0xcc, // 5b: int3
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // 60: the seconds
];
const GETTIMEOFDAY: u64 = 0x24;
const TIME: u64 = 0x3f;
const SECONDS: usize = 0x60;
/// `jmp` to a 32-bit displacement, which counts from the next instruction.
const JUMP: u8 = 0xe9;
const JUMP_BYTES: usize = 5;
/// The kernel's largest has 16 KiB.
const VDSO_BYTES_MAX: u64 = 1 << 20;
/// All threads stop within microseconds; on a busy machine they may have to wait for a processor.
const STOP_LIMIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A thread that is in the very code is out of it a microsecond later.
const TRIES: usize = 20;

/// Lets the process's wall clock be `seconds` ahead of the host's from now on. One that never had a clock of its own is stopped for
/// a moment, unless it is stopped anyhow.
///
/// # Errors
/// The process is gone, does not stop (it is frozen), or this is another kind of machine or kernel.
pub fn set_ahead(pid: Pid, seconds: i64) -> anyhow::Result<()> {
    anyhow::ensure!(cfg!(target_arch = "x86_64"), "a wall clock of its own can be given to a process on x86-64 alone");
    let vdso = Vdso::of(pid)?;
    if !vdso.is_ours()? {
        install(&vdso, pid)?;
    }
    // One aligned word: whoever reads has the old number or the new one.
    vdso.write(vdso.clock_gettime + u64::try_from(SECONDS)?, &seconds.to_le_bytes())
}

fn install(vdso: &Vdso, pid: Pid) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        if while_stopped(pid, || vdso.install_unless_in_use(pid))? {
            return Ok(());
        }
    }
    anyhow::bail!("process {} is in its vDSO each time that one looks", pid.as_raw_nonzero())
}

/// Does `work` while no thread of the process runs.
fn while_stopped<T>(pid: Pid, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    if Process::look(pid).is_some_and(|process| process.is_stopped()) {
        return work();
    }
    kill_process(pid, Signal::STOP).context("cannot stop the process")?;
    let done = wait_until_stopped(pid).and_then(|()| work());
    kill_process(pid, Signal::CONT).context("cannot continue the process")?;
    done
}

fn wait_until_stopped(pid: Pid) -> anyhow::Result<()> {
    let looks = STOP_LIMIT.as_millis() / LOOK_EVERY.as_millis();
    for _ in 0..looks {
        let threads = threads(pid)?;
        if threads.iter().all(|thread| Process::look(*thread).is_none_or(|thread| matches!(thread.state, 'T' | 't'))) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    anyhow::bail!("the process does not stop: if its node is frozen, give it a clock of its own before (by=0s)")
}

fn threads(pid: Pid) -> anyhow::Result<Vec<Pid>> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).context("the process is gone")?;
    Ok(tasks.filter_map(|task| Pid::from_raw(task.ok()?.file_name().to_str()?.parse().ok()?)).collect())
}

/// The mapping of one process.
struct Vdso {
    memory: File,
    range: Range<u64>,
    clock_gettime: u64,
    gettimeofday: u64,
    time: u64,
}

impl Vdso {
    fn of(pid: Pid) -> anyhow::Result<Self> {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        let maps = fs::read_to_string(format!("{proc}/maps")).context("the process is gone")?;
        let range = maps.lines().find_map(range_of_vdso).context("the process has no vDSO (the kernel's vdso=0?)")?;
        let length = range.end - range.start;
        anyhow::ensure!(length <= VDSO_BYTES_MAX, "a vDSO of {length} bytes");
        let memory = OpenOptions::new().read(true).write(true).open(format!("{proc}/mem")).context("cannot open its memory")?;
        let mut image = vec![0; usize::try_from(length)?];
        memory.read_exact_at(&mut image, range.start).context("cannot read its vDSO")?;
        let at = |name, room| {
            let symbol = symbol(&image, name)?;
            anyhow::ensure!(symbol.1 >= room, "{name} has {} bytes on this kernel, too few", symbol.1);
            Ok(range.start + symbol.0)
        };
        let room = |bytes: usize| u64::try_from(bytes);
        let clock_gettime = at("__vdso_clock_gettime", room(CODE.len())?)?;
        anyhow::ensure!(clock_gettime.is_multiple_of(8), "__vdso_clock_gettime is not aligned on this kernel");
        let gettimeofday = at("__vdso_gettimeofday", room(JUMP_BYTES)?)?;
        let time = at("__vdso_time", room(JUMP_BYTES)?)?;
        Ok(Self { memory, range, clock_gettime, gettimeofday, time })
    }

    fn is_ours(&self) -> anyhow::Result<bool> {
        let mut found = [0; SECONDS];
        self.memory.read_exact_at(&mut found, self.clock_gettime).context("cannot read its vDSO")?;
        Ok(CODE.starts_with(&found))
    }

    /// False if a thread is about to go on in the mapping, which then stays as it is.
    fn install_unless_in_use(&self, pid: Pid) -> anyhow::Result<bool> {
        for thread in threads(pid)? {
            let path = format!("/proc/{}/task/{}/syscall", pid.as_raw_nonzero(), thread.as_raw_nonzero());
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
            // "-1 0xSP 0xPC", or the call's number and arguments before these.
            let counter = text.trim().rsplit_once(" 0x").and_then(|(_, counter)| u64::from_str_radix(counter, 16).ok());
            if self.range.contains(&counter.with_context(|| format!("{path} says {text:?}"))?) {
                return Ok(false);
            }
        }
        self.write(self.clock_gettime, &CODE)?;
        for (entry, target) in [(self.gettimeofday, GETTIMEOFDAY), (self.time, TIME)] {
            let next = entry + u64::try_from(JUMP_BYTES)?;
            let displacement = i32::try_from((self.clock_gettime + target).cast_signed() - next.cast_signed())?;
            let mut jump = vec![JUMP];
            jump.extend(displacement.to_le_bytes());
            self.write(entry, &jump)?;
        }
        Ok(true)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> anyhow::Result<()> {
        self.memory.write_all_at(bytes, at).context("cannot write its vDSO (the kernel's proc_mem.force_override?)")
    }
}

/// `7ffc1b5d8000-7ffc1b5da000 r-xp 00000000 00:00 0    [vdso]`.
fn range_of_vdso(line: &str) -> Option<Range<u64>> {
    let (start, rest) = line.strip_suffix("[vdso]")?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(start)?..address(rest.split_once(' ')?.0)?)
}

/// Where in the image a symbol is, and how many bytes it has. The image is linked to address 0.
fn symbol(image: &[u8], name: &str) -> anyhow::Result<(u64, u64)> {
    let image = ElfBytes::<NativeEndian>::minimal_parse(image).context("its vDSO is no ELF image")?;
    let table = image.dynamic_symbol_table().context("its vDSO's symbols cannot be read")?;
    let (symbols, names) = table.context("its vDSO has no symbols")?;
    let found = symbols.iter().find(|symbol| {
        usize::try_from(symbol.st_name).is_ok_and(|at| names.get_raw(at).is_ok_and(|found| found == name.as_bytes()))
    });
    found.map(|symbol| (symbol.st_value, symbol.st_size)).with_context(|| format!("its vDSO has no {name}"))
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
#[path = "vdso_tests.rs"]
mod tests;
