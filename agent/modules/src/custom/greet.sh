#!/bin/sh
while read -r request; do
    case $request in
    '{"load"'*) echo '{"return": {"functions": {"hello": {"args": [["name", "you"]]}, "whoami": {}}}}' ;;
    *'"greet.hello"'*) echo '{"return": "hello"}' ;;
    *'"greet.whoami"'*)
        # It asks, and passes on what it is told.
        echo '{"call": "grains.get", "args": ["id"], "kwargs": {}}'
        read -r reply
        echo "$reply" ;;
    *) echo '{"error": "there is no such function"}' ;;
    esac
done
