#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`ftjit warm`, `ftjit cache`, bundles and bad file systems, as processes.

use: check_warm.py FTJIT FAKE_NVRTC

Kernels are compiled by a stand-in for NVRTC, and by the host's compiler where they have to run.
What needs a mount or another user is skipped where that is not allowed. Prints TAP.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

FTJIT = FAKE_NVRTC = ''
SECONDS = 300
TARGETS = 'sm_80,sm_89,sm_90a,sm_100a,sm_120a'
NOBODY = 65534


class Skip(Exception):
    """What this machine cannot do."""


def run(arguments, expect=0, user=None, under=(), **environment):
    """The command's output, as run by the command `under`; it must exit with `expect`."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(('FTJIT_', 'FAKE_', 'XDG_'))}
    env['FTJIT_NVRTC'] = FAKE_NVRTC
    env['FTJIT_LOCK_DIR'] = '/dev/null'  # no waiting for what other tests compile
    env.update({'ASAN_OPTIONS': 'detect_leaks=0'} if under else {})  # it would trace, too
    env.update({key: value for key, value in environment.items() if value is not None})
    for key in [key for key, value in environment.items() if value is None]:
        env.pop(key, None)
    done = subprocess.run([*under, FTJIT, *arguments], capture_output=True, text=True, env=env,
                          timeout=SECONDS, check=False, stdin=subprocess.DEVNULL, user=user)
    assert done.returncode == expect, \
        f'{arguments}: exit code {done.returncode}, not {expect}: {done.stdout}{done.stderr}'
    return done


def warm(work, *arguments, expect=0, cache='cache', **environment):
    """One `ftjit warm --json`: the document, with standard error under "stderr"."""
    done = run(['warm', '--json', '--in-process', *arguments], expect=expect,
               FTJIT_CACHE_DIR=os.path.join(work, cache), **environment)
    return {**json.loads(done.stdout), 'stderr': done.stderr}


def outcome(document):
    return document['compiled'], document['hit'], document['failed']


def entries(root):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(root)
                  for name in names if name.endswith('.ftk'))


def temporaries(root):
    return [name for _, _, names in os.walk(root) for name in names if name.endswith('.tmp')]


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def model(name='gpt-oss-20b', targets='sm_90a'):
    return ['--targets', targets, '--model', name]


def decode(expect=0, user=None, under=(), **environment):
    """A checked decode on the CPU: how many kernels were compiled, and standard error."""
    done = run(['bench', 'decode', '--quick', '--device', 'cpu', '--kv-dtype', 'fp8', '--verbose'],
               expect, user, under, **environment)
    return done.stderr.count(' compiled '), done.stderr


# ---- warm ----------------------------------------------------------------------------------------

def cold_then_warm_then_half(work):
    count = warm(work, *model())['kernels']
    assert count >= 10
    assert outcome(warm(work, *model())) == (0, count, 0)
    for path in entries(work)[::2]:
        os.unlink(path)
    left = len(entries(work))
    assert outcome(warm(work, *model())) == (count - left, left, 0), 'it goes on where it was'
    assert not temporaries(work)


def compiles_in_processes_of_their_own(work):
    done = run(['warm', *model()], FTJIT_CACHE_DIR=work)
    assert ' 0 failed' in done.stdout and not done.stderr, done.stderr
    assert entries(work)


def two_at_once_compile_each_kernel_once(work):
    """And no more at a time than this machine has room for, whatever -j says."""
    record = os.path.join(work, 'record')
    env = {**os.environ, 'FTJIT_NVRTC': FAKE_NVRTC, 'FTJIT_CACHE_DIR': os.path.join(work, 'cache'),
           'FTJIT_LOCK_DIR': os.path.join(work, 'locks'), 'FAKE_NVRTC_RECORD': record,
           'FAKE_NVRTC_DELAY_MS': '20'}
    command = [FTJIT, 'warm', '--json', '--in-process', '-j', '16', *model()]
    # pylint: disable=consider-using-with
    both = [subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for _ in range(2)]
    start = time.monotonic()
    ends = [process.communicate(timeout=SECONDS) for process in both]
    seconds = time.monotonic() - start
    done = [json.loads(stdout) for stdout, _ in ends]
    assert not any(stderr for _, stderr in ends), ends
    count = done[0]['kernels']
    assert done[0]['compiled'] + done[1]['compiled'] == count, done
    assert done[0]['hit'] + done[1]['hit'] == count, done
    compiled = read(record).split()
    assert len(compiled) == len(set(compiled)) == count, compiled
    room = len([name for name in os.listdir(env['FTJIT_LOCK_DIR']) if name.startswith('slot-')])
    assert 1 <= room <= os.cpu_count(), room
    assert seconds >= 0.020 * count / room, f'{count} kernels in {seconds} s with room for {room}'


def shards_are_a_partition(work):
    def listed(*more):
        done = run(['warm', '--list', *model('all', TARGETS), *more], FTJIT_CACHE_DIR=work)
        return [line for line in done.stdout.splitlines() if not line.startswith('skipped')]
    whole = listed()
    parts = [line for shard in range(7) for line in listed('--shard', f'{shard}/7')]
    assert sorted(parts) == sorted(whole) and len(set(whole)) == len(whole) > 200
    assert 'skipped GLM-5.2 dsa' in run(['warm', '--list', *model('all')]).stdout


def a_bundle_is_the_same_bytes_whoever_makes_it(work):
    one, two = os.path.join(work, '1.ftb'), os.path.join(work, '2.ftb')
    first = warm(work, *model('all', TARGETS), '--bundle', one, '-j', '4', cache='a')
    second = warm(work, *model('all', TARGETS), '--bundle', two, '-j', '1', cache='b')
    again = warm(work, *model('all', TARGETS), '--bundle', two, cache='a')
    assert first['failed'] == 0 and first['kernels'] == first['bundle']['entries'] > 200
    assert first['bundle']['sha256'] == second['bundle']['sha256'] == again['bundle']['sha256']
    assert read(one) == read(two)
    assert any('MiniMax-M3' in line for line in first['skipped'])


def failures_are_counted_and_no_bundle_is_made_of_them(work):
    bundle = os.path.join(work, 'x.ftb')
    count = warm(work, *model(), cache='other')['kernels']
    document = warm(work, *model(), '--bundle', bundle, '-j', '2', expect=1,
                    FAKE_NVRTC_FAIL='nvrtcCompileProgram', TMPDIR=work)
    assert document['failed'] == count and 'bundle' not in document
    assert document['stderr'].count('gpt-oss-20b') == count, document['stderr']
    assert 'no bundle is written' in document['stderr'] and not os.path.exists(bundle)
    nothing = warm(work, *model(), expect=1, FTJIT_NVRTC='/nowhere/libnvrtc.so.13')
    assert nothing['failed'] == count and '/nowhere/libnvrtc.so.13' in nothing['stderr']


def what_is_asked_wrongly_is_refused(work):
    for arguments, named in (
            (['--targets', 'sm_90a'], '--model, --preset or --from'),
            (['--model', 'gpt-oss-20b'], '--targets'),
            (model('gpt-2'), 'Llama-3.1-8B'),
            (model(targets='sm_1'), 'sm_1'),
            ([*model(), '--kv-dtype', 'int3'], 'fp8+nvfp4'),
            ([*model(), '--shard', '3/3'], '--shard'),
            ([*model(), '-j', '0'], '-j'),
            ([*model(), '--order', 'abc'], 'packed'),
            (['--from', '/nowhere/misses.txt'], None)):
        done = run(['warm', *arguments], 2 if named else 1, FTJIT_CACHE_DIR=work)
        assert not named or named in done.stderr, done.stderr
    done = run(['warm', *model()], 1, HOME=None)
    assert 'no cache' in done.stderr, done.stderr


def what_production_missed_is_warmed_from_its_record(work):
    record, cache = os.path.join(work, 'misses.txt'), os.path.join(work, 'cache')
    stats = os.path.join(work, 'stats.json')
    compiled, _ = decode(FTJIT_CACHE_DIR=os.path.join(work, 'elsewhere'), FTJIT_RECORD=record,
                         FTJIT_STATS=stats)
    assert compiled > 0 and read(record).count(b'\n') == compiled
    assert json.loads(read(stats).splitlines()[-1])['compiles'] == compiled
    assert outcome(warm(work, '--from', record)) == (compiled, 0, 0)
    assert decode(FTJIT_CACHE_DIR=cache)[0] == 0, 'a record is of exactly what is needed'
    assert outcome(warm(work, '--from', record, '--targets', 'sm_80,sm_90a'))[2] == 0

    with open(record, 'ab') as file:
        file.write(b'# a comment\n\nftjit-problem-1 target=sm_90a\0\n')
    done = run(['warm', '--from', record], 2, FTJIT_CACHE_DIR=cache)
    assert f'line {compiled + 3}:' in done.stderr, done.stderr


# ---- bundles in use ------------------------------------------------------------------------------

def a_bundle_serves_where_there_is_no_compiler(work):
    record, bundle = os.path.join(work, 'misses.txt'), os.path.join(work, 'k.ftb')
    decode(FTJIT_CACHE_DIR=os.path.join(work, 'a'), FTJIT_RECORD=record)
    digest = warm(work, '--from', record, '--bundle', bundle)['bundle']['sha256']
    moved = os.path.join(work, 'elsewhere.ftb')
    os.rename(bundle, moved)
    hidden = {'FTJIT_CXX': '/nowhere/c++', 'FTJIT_CACHE_DIR': os.path.join(work, 'b'),
              'FTJIT_CACHE_PATH': moved}
    stats = os.path.join(work, 'stats.json')
    assert decode(**hidden, FTJIT_STATS=stats)[0] == 0
    assert json.loads(read(stats).splitlines()[-1])['bundle_hits'] > 0
    assert not entries(os.path.join(work, 'b')), 'nothing is copied up'
    assert decode(**hidden, FTJIT_BUNDLE_SHA256=digest)[0] == 0
    done = run(['cache', 'path'], **{**hidden, 'FTJIT_CACHE_PATH': f'/nowhere:{moved}'})
    assert f'sha256 {digest}' in done.stdout and '/nowhere' in done.stderr, done.stdout
    assert decode(1, **hidden, FTJIT_COMPILER_MATCH='exact')[0] == 0
    _, stderr = decode(1, **hidden, FTJIT_BUNDLE_SHA256='0' * 64)
    assert 'not pinned' in stderr and digest in stderr, stderr


def verify_finds_what_is_damaged(work):
    cache, bundle = os.path.join(work, 'cache'), os.path.join(work, 'k.ftb')
    count = warm(work, *model(), '--bundle', bundle)['kernels']
    assert f'{count} entries are sound, 0 are not' in \
        run(['cache', 'verify'], FTJIT_CACHE_DIR=cache).stdout
    done = run(['cache', 'verify', bundle, '--recompile'], FTJIT_CACHE_DIR=cache)
    assert f'{count} compiled again to the same bytes, 0 did not' in done.stdout, done.stdout
    listed = json.loads(run(['cache', 'ls', '--json'], FTJIT_CACHE_DIR=cache).stdout)['entries']
    assert sorted(item['path'] for item in listed) == entries(cache)
    key = listed[0]['key']
    assert key in run(['cache', 'show', key[:12]], FTJIT_CACHE_DIR=cache).stdout
    assert 'struct Config' in run(['cache', 'show', key, '--source'], FTJIT_CACHE_DIR=cache).stdout

    for path in (entries(cache)[0], bundle):
        data = bytearray(read(path))
        data[-1] ^= 4
        with open(path, 'wb') as file:
            file.write(data)
    done = run(['cache', 'verify'], 1, FTJIT_CACHE_DIR=cache)
    assert f'{entries(cache)[0]} fails its checks' in done.stdout, done.stdout
    done = run(['cache', 'verify', bundle], 1, FTJIT_CACHE_DIR=cache)
    assert f'{count - 1} entries are sound, 1 are not' in done.stdout, done.stdout
    with open(bundle, 'ab') as file:
        file.write(b'x')
    done = run(['cache', 'verify', bundle], 1, FTJIT_CACHE_DIR=cache)
    assert 'not as long as its header says' in done.stderr, done.stderr


def gc_and_clear_leave_what_is_not_ours(work):
    cache = os.path.join(work, 'cache')
    warm(work, *model())
    with open(os.path.join(cache, 'notes.txt'), 'w', encoding='utf-8') as file:
        file.write('mine')
    size = sum(os.path.getsize(path) for path in entries(cache))
    run(['cache', 'gc', '--max-bytes', str(size // 2)], FTJIT_CACHE_DIR=cache)
    assert 0 < sum(os.path.getsize(path) for path in entries(cache)) <= size // 2
    run(['cache', 'clear'], FTJIT_CACHE_DIR=cache)
    assert os.listdir(cache) == ['notes.txt']
    assert run(['cache', 'path'], FTJIT_CACHE_DIR=cache).stdout.startswith(cache)


# ---- bad file systems ----------------------------------------------------------------------------

@contextlib.contextmanager
def mounted(folder, options):
    os.mkdir(folder)
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', folder],
                          capture_output=True, text=True, check=False) \
        if shutil.which('mount') else None
    if done is None or done.returncode:
        raise Skip('mounting a tmpfs is not allowed here')
    try:
        yield
    finally:
        subprocess.run(['umount', folder], check=False)


def a_full_disk_costs_a_notice(work):
    disk = os.path.join(work, 'disk')
    with mounted(disk, 'size=1m,mode=0700'):
        with open(os.path.join(disk, 'ballast'), 'wb', 0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b'x' * 4096)
        cache = os.path.join(disk, 'cache')
        compiled, stderr = decode(FTJIT_CACHE_DIR=cache)
        assert compiled > 0 and stderr.count('memory only') == 1, stderr
        assert 'No space left' in stderr, stderr
        assert not entries(disk) and not temporaries(disk)

        os.truncate(os.path.join(disk, 'ballast'), 600000)
        stderr = warm(disk, '--targets', TARGETS, '--preset', 'all', expect=1)['stderr']
        assert 'could not be saved' in stderr and not temporaries(disk), stderr
        sound = run(['cache', 'verify'], FTJIT_CACHE_DIR=cache).stdout
        assert ', 0 are not' in sound and not sound.startswith('0 '), sound


def a_read_only_disk_still_serves(work):
    disk = os.path.join(work, 'disk')
    with mounted(disk, 'size=8m,mode=0700'):
        cache = os.path.join(disk, 'cache')
        compiled, _ = decode(FTJIT_CACHE_DIR=cache)
        done = subprocess.run(['mount', '-o', 'remount,ro', disk], capture_output=True, check=False)
        if done.returncode:
            raise Skip('remounting is not allowed here')
        assert compiled > 0 and decode(FTJIT_CACHE_DIR=cache)[0] == 0
        again, stderr = decode(FTJIT_CACHE_DIR=os.path.join(disk, 'other'))
        assert again == compiled and stderr.count('memory only') == 1, stderr
        assert 'Read-only file system' in stderr, stderr


def a_quota_and_a_stale_handle_cost_a_notice(work):
    def failing(call, error, *more):
        return ['strace', '-o', os.devnull, '-e', f'trace={call}', '-e',
                f'inject={call}:error={error}', *more]
    if not shutil.which('strace') or subprocess.run(['strace', '-o', os.devnull, 'true'],
                                                    capture_output=True, check=False).returncode:
        raise Skip('strace is not there, or may not trace')
    cache = os.path.join(work, 'cache')
    for call, error, text in (('fdatasync', 'EDQUOT', 'Disk quota exceeded'),
                              ('renameat', 'ESTALE', 'Stale file handle')):
        compiled, stderr = decode(under=failing(call, error), FTJIT_CACHE_DIR=cache)
        assert compiled > 0 and stderr.count('memory only') == 1 and text in stderr, stderr
        assert not entries(cache) and not temporaries(cache)
    assert decode(FTJIT_CACHE_DIR=cache)[0] == compiled
    stale = failing('pread64', 'ESTALE', '-P', entries(cache)[0])
    again, stderr = decode(under=stale, FTJIT_CACHE_DIR=cache)
    assert again == 1 and 'memory only' not in stderr, stderr
    assert decode(FTJIT_CACHE_DIR=cache)[0] == 0 and len(entries(cache)) == compiled


def other_users_folders_and_no_home(work):
    if os.geteuid() != 0:
        raise Skip('only root can become another user')
    os.chmod(work, 0o755)
    closed = os.path.join(work, 'closed')
    os.mkdir(closed, 0o700)
    scratch = os.path.join(work, 'scratch')
    os.mkdir(scratch)
    os.chmod(scratch, 0o777)
    try:
        compiled, stderr = decode(user=NOBODY, TMPDIR=scratch, HOME=None,
                                  FTJIT_CACHE_DIR=os.path.join(closed, 'cache'))
    except PermissionError as refusal:
        raise Skip('the command cannot be run by another user') from refusal
    assert compiled > 0 and stderr.count('memory only') == 1, stderr
    assert 'Permission denied' in stderr, stderr
    _, stderr = decode(user=NOBODY, TMPDIR=scratch, HOME=None)
    assert stderr.count('memory only') == 1 and 'unset' in stderr, stderr
    os.chmod(closed, 0o755)
    _, stderr = decode(user=NOBODY, TMPDIR=scratch, HOME=None, FTJIT_CACHE_DIR=closed)
    assert stderr.count('memory only') == 1 and 'it belongs to user 0' in stderr, stderr


CASES = (
    cold_then_warm_then_half, compiles_in_processes_of_their_own,
    two_at_once_compile_each_kernel_once, shards_are_a_partition,
    a_bundle_is_the_same_bytes_whoever_makes_it,
    failures_are_counted_and_no_bundle_is_made_of_them, what_is_asked_wrongly_is_refused,
    what_production_missed_is_warmed_from_its_record, a_bundle_serves_where_there_is_no_compiler,
    verify_finds_what_is_damaged, gc_and_clear_leave_what_is_not_ours, a_full_disk_costs_a_notice,
    a_read_only_disk_still_serves, a_quota_and_a_stale_handle_cost_a_notice,
    other_users_folders_and_no_home,
)


def main(arguments):
    global FTJIT, FAKE_NVRTC  # pylint: disable=global-statement
    if len(arguments) < 2:
        sys.exit(__doc__)
    FTJIT, FAKE_NVRTC = map(os.path.abspath, arguments[:2])
    cases = [case for case in CASES if not arguments[2:] or case.__name__ in arguments[2:]]
    failed = 0
    print(f'1..{len(cases)}')
    for number, case in enumerate(cases, 1):
        name, verdict, reason = case.__name__.replace('_', ' '), 'ok', ''
        with tempfile.TemporaryDirectory(prefix='ftjit-warm-') as work:
            try:
                case(work)
            except Skip as skip:
                reason = f' # SKIP {skip}'
            except (AssertionError, subprocess.TimeoutExpired, ValueError, KeyError) as problem:
                verdict, failed = 'not ok', failed + 1
                print('# ' + '\n# '.join(f'{type(problem).__name__}: {problem}'.splitlines()))
        print(f'{verdict} {number} - {name}{reason}', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
