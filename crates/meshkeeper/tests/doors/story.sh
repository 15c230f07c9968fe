# What a person does with the package, on a Debian that has nothing but systemd: told line by line, by `story.service`.
# $1 is the port of a Redis whose default user has the password in /admin.password.
set -eu
port=$1
unit=meshkeeper.service

step() { printf '\n== %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*"
    systemctl status --no-pager --full $unit || true
    journalctl --no-pager -u $unit -n 40 2>/dev/null || true
    exit 1
}
# until_so WHAT COMMAND…: waits for a state.
until_so() {
    what=$1
    shift
    i=0
    until "$@" >/until.out 2>&1; do
        i=$((i + 1))
        [ "$i" -lt 300 ] || { cat /until.out; fail "$what did not come about"; }
        sleep 0.2
    done
}
same() { [ "$2" = "$3" ] || fail "$1: '$2' and not '$3'"; }
redis() {
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'AUTH %s\r\n%s\r\nQUIT\r\n' "$(cat /admin.password)" "$1" >&3
    cat <&3
    exec 3>&-
}
password() { meshkeeper credentials web cache --json | sed -n 's/.*"password": *"\([^"]*\)".*/\1/p'; }

step 'installed: the service runs, with a manifest and a user of its own'
dpkg --install /one.deb
systemctl is-active $unit || fail 'it does not run'
systemctl is-enabled $unit || fail 'it is not started at boot'
same 'the data folder' "$(stat -c '%U %G %a' /var/lib/meshkeeper)" 'meshkeeper meshkeeper 700'
same 'the passwords folder' "$(stat -c '%U %a' /etc/meshkeeper/credentials)" 'root 700'
grep '^id' /etc/meshkeeper/mesh.toml
for file in /usr/share/man/man1/mesh.1.gz /usr/share/man/man1/mesh-up.1.gz /usr/share/man/man8/meshkeeper.8.gz \
    /usr/share/zsh/vendor-completions/_mesh /usr/share/fish/vendor_completions.d/mesh.fish; do
    [ -s "$file" ] || fail "no $file"
done
bash -c '. /usr/share/bash-completion/completions/mesh && complete -p mesh'
meshkeeper status --check

step 'the unit: in order, and hard'
systemd-analyze verify --man=no /usr/lib/systemd/system/$unit
systemd-analyze security --offline=yes --threshold=20 --no-pager /usr/lib/systemd/system/$unit | tail -n 1
pid=$(systemctl show -P MainPID $unit)
same 'new privileges' "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$pid/status")" 1
same 'capabilities' "$(sed -n 's/^CapBnd:\t//p' "/proc/$pid/status")" 0000000000000000
same 'the watchdog' "$(systemctl show -P WatchdogUSec $unit)" 1min
! runuser -u nobody -- ls /var/lib/meshkeeper 2>/dev/null || fail 'anybody may look into the data'

step 'first heal, with passwords that only root can read'
install -m 0600 /admin.password /etc/meshkeeper/credentials/cache
systemd-creds encrypt --name=sealed_cache /admin.password /etc/meshkeeper/credentials.sealed/cache 2>/dev/null
systemctl restart $unit
cp /etc/meshkeeper/mesh.toml /etc/meshkeeper/next.toml
cat >>/etc/meshkeeper/next.toml <<TOML

[provider.cache]
kind  = "redis"
url   = "redis://127.0.0.1:$port"
admin = { user = "default", password = { file = "/run/credentials/meshkeeper.service/sealed_cache" } }
verify_every = "2s"

[consumer.web.needs.cache]
keys     = ["web:*"]
commands = ["+@read"]
TOML
meshkeeper plan --config /etc/meshkeeper/next.toml && fail 'a plan without changes' || same 'the plan' $? 2
sed -i 's/sealed_cache/admin_cache/' /etc/meshkeeper/next.toml
meshkeeper plan --config /etc/meshkeeper/next.toml && fail 'a plan without changes' || same 'the plan' $? 2
mv /etc/meshkeeper/next.toml /etc/meshkeeper/mesh.toml
held() { meshkeeper status | grep -q '1 held' || meshkeeper status --json | grep -q '"state": *"held"'; }
until_so 'the first login' held
until_so 'nothing to say' meshkeeper status --check
before=$(password)
[ "${#before}" -eq 32 ] || fail 'no password'
redis 'ACL DELUSER web'
there() { redis 'ACL USERS' | grep -q web; }
until_so 'the heal' there
healed() { meshkeeper events web | grep -i healed; }
until_so 'the event of it' healed
same 'the password after the heal' "$(password)" "$before"

step 'reloaded'
systemctl reload $unit
systemctl is-active $unit || fail 'it does not run after a reload'

step 'upgraded from the version before'
echo 'MESH_LOG=debug' >>/etc/default/meshkeeper
cp /etc/meshkeeper/mesh.toml /mesh.toml.before
old=$(systemctl show -P MainPID $unit)
dpkg --install /two.deb
same 'the version' "$(dpkg-query -f '${Version}' -W meshkeeper)" "$(cat /two.version)"
systemctl is-active $unit || fail 'it does not run after the upgrade'
[ "$(systemctl show -P MainPID $unit)" != "$old" ] || fail 'the old program runs on'
grep -q 'MESH_LOG=debug' /etc/default/meshkeeper || fail 'a changed configuration was written over'
cmp /etc/meshkeeper/mesh.toml /mesh.toml.before
until_so 'all well after the upgrade' meshkeeper status --check
same 'the password after the upgrade' "$(password)" "$before"

step 'stopped by a person: an upgrade starts nothing'
systemctl stop $unit
dpkg --install /two.deb
! systemctl is-active $unit || fail 'it was started'
systemctl start $unit

step 'removed: configuration and data stay'
dpkg --remove meshkeeper
! systemctl is-active $unit || fail 'it runs on'
[ ! -e /usr/bin/mesh ] || fail 'the program is there'
cmp /etc/meshkeeper/mesh.toml /mesh.toml.before
[ -s /var/lib/meshkeeper/installation.key ] || fail 'the key is gone'
dpkg --install /two.deb
systemctl is-active $unit || fail 'it does not run when it is installed again'
until_so 'all well when it is installed again' meshkeeper status --check
same 'the password when it is installed again' "$(password)" "$before"

left() { find / -xdev \( -name '*meshkeeper*' -o -name 'mesh' -o -name 'mesh*.1*' \) ! -path '/proc/*' | sort | tr '\n' ' '; }
step 'purged: nothing stays but what it says'
dpkg --purge meshkeeper | tee /purge.out
grep -q 'Kept: /var/lib/meshkeeper' /purge.out || fail 'it does not say what it kept'
same 'what stays' "$(left)" '/var/lib/meshkeeper '
[ -s /var/lib/meshkeeper/secrets.db ] || fail 'the passwords are gone'
getent passwd meshkeeper

step 'purged where no password was ever made: nothing stays at all'
rm -r /var/lib/meshkeeper
userdel meshkeeper
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
dpkg --install /two.deb
! systemctl is-active $unit || fail 'it runs where services may not be started'
dpkg --purge meshkeeper
same 'what stays' "$(left)" ''
! getent passwd meshkeeper || fail 'the user stays'

step 'THE END'
