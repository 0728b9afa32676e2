#!/bin/sh
# Restores a backup into an empty folder, prepares it as for service, checks it and tells how long that took. The service and
# its database are left alone: the copy listens on no network, archives nothing, and no process of Steward serves it.
#
#   restore-drill.sh --into FOLDER [--at 2026-11-23T14:05:00Z] [--env-file /etc/steward/steward.env]
#
#   --at INSTANT       the moment to restore; a random second of the last day by default
#   --into FOLDER      where the copy goes: absent or empty, on a disk with room for the whole database
#   --stanza NAME      restores from pgBackRest's stanza (default: steward)
#   --base FOLDER --archive FOLDER    restores a plain pg_basebackup and its archived log instead
#   --env-file FILE    the settings of the service: the master keys are needed to open what is encrypted
#   --compare CONNECTION    also compares the audit log with a running server (a standby will do)
#   --keep             leaves the copy there, stopped
#   --user, --role, --database    the system's user of the server (postgres), Steward's role and database (steward)
#   --steward COMMAND  Steward's command (steward)
#
# Exits with 0 when the copy could be served, else with 1 and the reason.
set -eu
at='' into='' base='' archive='' compare='' keep='' env_file=''
user=postgres role=steward database=steward stanza=steward steward=steward
fail() {
    echo "restore-drill: $*" >&2
    exit 1
}
while [ $# -gt 0 ]; do
    case $1 in
    --help) exec sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" ;;
    --keep)
        keep=yes
        shift
        continue
        ;;
    --at | --into | --base | --archive | --compare | --env-file | --user | --role | --database | --stanza | --steward) ;;
    *) fail "there is no option $1; see --help" ;;
    esac
    [ $# -ge 2 ] || fail "$1 needs a value"
    eval "$(echo "${1#--}" | tr - _)=\$2"
    shift 2
done
[ -n "$into" ] || fail "--into FOLDER is missing; see --help"
[ -z "$base" ] || [ -n "$archive" ] || fail "--base needs --archive FOLDER"
[ -z "$(ls -A "$into" 2>/dev/null)" ] || fail "$into is not empty"
[ -n "$at" ] || at=$(date -u -d "@$(($(date +%s) - $(shuf -i 300-86400 -n 1)))" +%Y-%m-%dT%H:%M:%SZ)
at_ms=$(date -u -d "$at" +%s%3N) || fail "--at takes an instant such as 2026-11-23T14:05:00Z"
target=$(date -u -d "$at" '+%Y-%m-%d %H:%M:%S.%3N+00') # as PostgreSQL and pgBackRest spell it

as_user() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"; else "$@"; fi
}
server() {
    program=$1
    shift
    as_user "/usr/lib/postgresql/$(cat "$into/data/PG_VERSION")/bin/$program" -D "$into/data" "$@"
}
query() { as_user psql -XAtq -v ON_ERROR_STOP=1 -F ' ' -d "$1" -c "$2"; }
seconds() { date +%s; }
stopped() {
    tail -5 "$into/drill.log" >&2
    is_up=''
    fail "the copy does not come up"
}
cd /
mkdir -p "$into"
[ "$(id -u)" != 0 ] || chown "$user" "$into"
chmod 700 "$into" # the copy trusts whoever reaches its socket, which lies in here
is_up='' began=$(seconds)
stop() {
    [ -z "$is_up" ] || server pg_ctl -m fast -w -t 600 -s stop
    is_up=''
}
leave() {
    status=$?
    stop || true
    [ -n "$keep" ] || rm -rf "$into/data" "$into/drill.conf" "$into/drill.hba" "$into/.s.PGSQL"*
    exit "$status"
}
trap leave EXIT
trap 'exit 1' INT TERM

echo "Restoring to $at into $into"
as_user mkdir -m 700 "$into/data"
if [ -n "$base" ]; then
    as_user cp -a "$base/." "$into/data/"
    as_user tee -a "$into/data/postgresql.auto.conf" >/dev/null <<SETTINGS
restore_command = 'cp "$archive/%f" "%p"'
recovery_target_time = '$target'
recovery_target_action = 'promote'
SETTINGS
    as_user touch "$into/data/recovery.signal"
else
    as_user pgbackrest --stanza="$stanza" --pg1-path="$into/data" --type=time --target="$target" --target-action=promote \
        --archive-mode=off restore
fi
copied=$(seconds)
bytes=$(du -sb "$into/data" | cut -f1)

# Its own settings: those of the host that was backed up name certificates, standbys and an archive.
as_user tee "$into/drill.hba" >/dev/null <<SETTINGS
local all all trust
SETTINGS
as_user tee "$into/drill.conf" >/dev/null <<SETTINGS
hba_file = '$into/drill.hba'
unix_socket_directories = '$into'
hot_standby = off
shared_buffers = 256MB
SETTINGS
is_up=yes
server pg_ctl -o "-c config_file='$into/drill.conf' -c listen_addresses='' -c archive_mode=off -c primary_conninfo='' -c synchronous_standby_names='' -c ssl=off" \
    -l "$into/drill.log" -w -t 86400 start >/dev/null || stopped
copy="host=$into user=$role dbname=$database"
until [ "$(query "$copy" 'SELECT pg_is_in_recovery()' 2>/dev/null)" = f ]; do # it replays the log up to the moment
    server pg_ctl status >/dev/null || stopped
    sleep 1
done
replayed=$(seconds)
copy="host=$into user=$(query "$copy" 'SELECT rolname FROM pg_roles WHERE oid = 10') dbname=$database" # the superuser

run_steward() {
    STEWARD_DATABASE_URL="postgresql://$role@/$database?host=$into" $steward "$@" ${env_file:+--env-file "$env_file"}
}
run_steward restored --at "$at"
# What a copy without a worker, or this host alone, has wrong is no fault of the backup.
run_steward doctor >"$into/doctor.txt" || [ $? = 1 ]
cat "$into/doctor.txt"
wrong=$(sed -n 's/^WRONG  \([a-z_]*\).*/\1/p' "$into/doctor.txt" |
    grep -vx -e slots -e leases -e notices -e mail -e proxy -e traces -e free_space -e files || true)
[ -z "$wrong" ] || fail "doctor finds fault with the copy: $(echo $wrong)"
grep -q '^ok' "$into/doctor.txt" || fail "doctor did not answer"
run_steward audit verify
prepared=$(seconds)

# Audit entries never change once written. What was under way in the last minute may have been committed after the moment.
marks="SELECT count(*), encode(sha256(convert_to(coalesce(string_agg(hash, '' ORDER BY org_id, seq), ''), 'UTF8')), 'hex')
    FROM audit_log WHERE at BETWEEN $((at_ms - 30 * 86400000)) AND $((at_ms - 60000))"
mine=$(query "$copy" "$marks")
echo "Audit entries of the 30 days before: $mine"
if [ -n "$compare" ]; then
    theirs=$(query "$compare" "$marks")
    [ "$mine" = "$theirs" ] || fail "the running server has others: $theirs"
    echo "The running server has the same."
fi
query "$copy" "SELECT 'Rows:', (SELECT count(*) FROM automations), 'automations,', (SELECT count(*) FROM runs), 'runs,',
    (SELECT count(*) FROM occurrences), 'occurrences'"
stop
if [ "$(server pg_controldata | sed -n 's/^Data page checksum version: *//p')" != 0 ]; then
    server pg_checksums >/dev/null || fail "pages of the copy do not match their checksums"
    echo "Every page matches its checksum."
fi
echo "The copy could be served. $((bytes / 1048576)) MiB: restored in $((copied - began)) s, replayed in $((replayed - copied)) s," \
    "prepared and checked in $((prepared - replayed)) s, $(($(seconds) - began)) s in all."
