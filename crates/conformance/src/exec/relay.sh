#!/bin/sh
# Stands between Meshkeeper and a program under test, and misbehaves as the file `fault` beside it says.
here=$(dirname "$0")
read -r how bytes <"$here/fault"
cd "$(dirname "$1")" || exit 1
echo $$ >>"$here/relays"
case $how in
none)
    echo $$ >>"$here/programs"
    exec "$@"
    ;;
silent)
    while read -r _; do :; done
    exit
    ;;
esac
pipe=$here/pipe.$$
mkfifo "$pipe"
exec 3<&0
"$@" <&3 3<&- >"$pipe" &
echo $! >>"$here/programs"
exec <"$pipe" 3<&-
rm "$pipe"
case $how in
cut) exec dd bs=1 count="$bytes" 2>/dev/null ;;
stall)
    dd bs=1 count="$bytes" 2>/dev/null
    while read -r _; do :; done
    ;;
esac
