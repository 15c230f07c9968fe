# Boots the folder $1, which holds a Debian, with its own systemd as the first process of namespaces of its own, until the
# unit story.service has ended. The network is this machine's: loopback is shared.
set -eu
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
ln -s /proc/self/fd dev/fd
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs tmpfs sys
mkdir -p sys/fs/cgroup
mount -t cgroup2 none sys/fs/cgroup
# As at any boot: what a unit's credentials are mounted on is seen by root outside of it.
mount --make-rshared .
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    chroot . /lib/systemd/systemd --system --unit=story.target --log-target=console --log-level=notice --show-status=0
