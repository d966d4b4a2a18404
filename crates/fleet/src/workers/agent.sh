# What a worker is asked by its supervisor. VERB, RUN, EPOCH and ATTEMPT are set above; answers are lines on stdout.
set -u
umask 077
D="$HOME/.tpubridge/jobs/$RUN"
mkdir -p "$D/work"
cd "$D" || exit 9
# One question at a time.
exec 9>"$D/lock"
flock -w 20 9 || { echo "busy"; exit 0; }

fence=$(cat fence 2>/dev/null || echo 0)
if [ "$EPOCH" -lt "$fence" ]; then
    echo "fenced $fence"
    exit 0
fi
if [ "$EPOCH" -gt "$fence" ]; then
    echo "$EPOCH" >fence.new && mv fence.new fence
fi

boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
# The process of a run lives in a session of its own, whose leader notes the exit code.
lives() {
    [ -f leader ] && [ "$(cat boot 2>/dev/null)" = "$boot" ] && kill -0 "$(cat leader)" 2>/dev/null
}

case "$VERB" in
look)
    if [ -f exit ]; then
        echo "exited $(cat attempt) $(cat exit)"
    elif lives; then
        silent=$(($(date +%s) - $(stat -c %Y log 2>/dev/null || date +%s)))
        echo "running $(cat attempt) $silent"
    else
        echo "idle"
    fi
    # The log from where the supervisor has read.
    if [ -f log ] && [ "$(cat attempt 2>/dev/null)" = "$ATTEMPT" ]; then
        tail -c "+$((OFFSET + 1))" log | head -c 65536
    fi
    ;;
bundle)
    cat bundle 2>/dev/null || echo "none"
    ;;
unpacked)
    echo "$BUNDLE" >bundle
    echo "done"
    ;;
start)
    if lives; then
        echo "busy"
        exit 0
    fi
    rm -f exit log
    echo "$ATTEMPT" >attempt
    echo "$boot" >boot
    printf '%s\n' "$SECRET" >secret
    : >log
    # The plugin of the job, where it names one.
    if [ -s plugin ]; then
        TPUBRIDGE_PLUGIN_PATH=$(cat plugin)
        export TPUBRIDGE_PLUGIN_PATH
        case "${TPUBRIDGE_PLUGIN_PATH##*/}" in libtpu*) export TPU_LIBRARY_PATH="$TPUBRIDGE_PLUGIN_PATH" ;; esac
    fi
    PROGRAM="$PROGRAM" setsid sh -c '
        cd work || exit 9
        setsid sh -c "$PROGRAM" >>../log 2>&1 9>&- &
        child=$!
        echo $child >../child
        wait $child
        code=$?
        # What it left behind would hold the chips.
        tries=0
        while kill -KILL "-$child" 2>/dev/null && [ $tries -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.05
        done
        echo $code >../exit.new && mv ../exit.new ../exit
    ' >/dev/null 2>&1 </dev/null 9>&- &
    echo $! >leader
    echo "started"
    ;;
ask)
    if lives && [ ! -f exit ] && [ "$(cat attempt)" = "$ATTEMPT" ]; then
        kill -TERM "$(cat child 2>/dev/null)" 2>/dev/null
    fi
    echo "asked"
    ;;
kill)
    if lives && [ "$(cat attempt)" = "$ATTEMPT" ]; then
        kill -KILL "-$(cat child)" 2>/dev/null || kill -KILL "$(cat child)" 2>/dev/null
        tries=0
        while lives && [ $tries -lt 100 ]; do
            tries=$((tries + 1))
            sleep 0.05
        done
    fi
    echo "killed"
    ;;
esac
