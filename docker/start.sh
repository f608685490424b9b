#!/bin/sh
# SPDX-FileCopyrightText: 2026 Semantic Search for Nextcloud contributors
# SPDX-License-Identifier: AGPL-3.0-or-later
# The container's entry: own the storage, open HaRP's tunnel if Nextcloud uses HaRP, become the app as a plain user.
set -eu

user=semantic
tunnel=/tmp/frpc.toml

# AppAPI sets HP_* when it deploys through HaRP. The app listens on APP_PORT; the tunnel ends there.
write_tunnel() {
    umask 077
    {
        echo "serverAddr = \"$HP_FRP_ADDRESS\""
        echo "serverPort = $HP_FRP_PORT"
        echo "loginFailExit = false"
        echo "metadatas.token = \"$HP_SHARED_KEY\""
        if [ -d /certs/frp ] && [ -e /certs/frp/client.crt ]; then
            echo "transport.tls.enable = true"
            echo "transport.tls.certFile = \"/certs/frp/client.crt\""
            echo "transport.tls.keyFile = \"/certs/frp/client.key\""
            echo "transport.tls.trustedCaFile = \"/certs/frp/ca.crt\""
            echo "transport.tls.serverName = \"harp.nc\""
        else
            echo "transport.tls.enable = false"
        fi
        echo "[[proxies]]"
        echo "name = \"$APP_ID\""
        echo "type = \"tcp\""
        echo "localIP = \"127.0.0.1\""
        echo "localPort = $APP_PORT"
        echo "remotePort = $APP_PORT"
    } >"$tunnel"
    umask 022
}

# Everything below runs as whoever we are when somebody chose another user for the container.
as_user=""
if [ "$(id -u)" = 0 ]; then
    as_user="setpriv --reuid=$user --regid=$user --init-groups --no-new-privs --"
    mkdir -p "$APP_PERSISTENT_STORAGE"
    [ "$(stat -c %U "$APP_PERSISTENT_STORAGE")" = "$user" ] || chown -R "$user:$user" "$APP_PERSISTENT_STORAGE"
    chown -R "$user:$user" /certs
    export HOME=/home/$user
fi

if [ -n "${HP_SHARED_KEY:-}" ]; then
    write_tunnel
    [ -z "$as_user" ] || chown "$user" "$tunnel"
    # shellcheck disable=SC2086 # several words
    $as_user frpc -c "$tunnel" &
    unset HP_SHARED_KEY
fi

# shellcheck disable=SC2086 # several words
exec $as_user "$@"
