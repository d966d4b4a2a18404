#!/bin/sh
# usage: with_tpus.sh CHIPS COMMAND...
# Runs a command where CHIPS v5e chips seem to be on the PCI bus, in namespaces of its own: loopback network, mounts, /proc.
# Needs root. What the command says is what this says.
set -eu
if [ "${INSIDE:-}" != 1 ]; then
  INSIDE=1 exec unshare --net --mount --pid --fork --mount-proc --kill-child "$0" "$@"
fi
chips=$1
shift
ip link set lo up
bus=$(mktemp -d)
for chip in $(seq 0 $((chips - 1))); do
  device=$bus/0000:00:$(printf %02x $((chip + 4))).0
  mkdir -p "$device"
  echo 0x1ae0 >"$device/vendor"
  echo 0x0063 >"$device/device"
  echo 0x0000 >"$device/subsystem_device"
  ln -s "/sys/kernel/iommu_groups/$chip" "$device/iommu_group"
done
mount --bind "$bus" /sys/bus/pci/devices
status=0
"$@" || status=$?
umount /sys/bus/pci/devices
rm -rf "$bus"
exit "$status"
