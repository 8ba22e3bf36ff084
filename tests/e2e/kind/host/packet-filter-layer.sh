#!/bin/bash
# Runs in a container of the node's Debian tree and writes a layer (tar) to stdout: iptables, nft and ip
# with every library they load. Also those of the xtables extensions: without them (libm, for
# one) kube-proxy fails silently on every service that has more than one endpoint.
set -euo pipefail
extensions=$(echo /usr/lib/*-linux-gnu/xtables)
names=(/usr/sbin/xtables-nft-multi /usr/sbin/nft /usr/bin/ip "$extensions"/*.so)
libraries=$(for name in "${names[@]}"; do ldd "$name"; done | tr ' \t' '\n\n' | grep ^/ | sort -u)
out=$(mktemp -d)
mkdir -p "$out"/usr/{bin,sbin,lib,lib64} "$out"/{tmp,run,etc}
chmod 1777 "$out/tmp"
for link in lib lib64 bin sbin; do ln -s "usr/$link" "$out/$link"; done
for name in "${names[@]}" $libraries; do
  # /lib, /bin and /sbin are links into /usr in Debian, and so they are in the layer
  case $name in /lib/* | /lib64/* | /bin/* | /sbin/*) name=/usr$name ;; esac
  mkdir -p "$out${name%/*}"
  cp -L "$name" "$out$name"
done
for variant in iptables ip6tables; do
  for action in "" -save -restore; do ln -s xtables-nft-multi "$out/usr/sbin/$variant$action"; done
done
tar -C "$out" --numeric-owner --sort=name --mtime=@0 -c .
