#!/bin/sh
# Creates the repositories of the cases of gitfs in a folder. Their commits have the same numbers everywhere.
# usage: repositories.sh FOLDER
set -eu
cd "$1"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null LC_ALL=C
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
day=0
commit() {
    day=$((day + 1))
    git add --all 2>/dev/null
    GIT_AUTHOR_DATE="2026-01-01T00:00:$day+0000" GIT_COMMITTER_DATE="2026-01-01T00:00:$day+0000" git commit --quiet --message "$1"
}
at() { GIT_COMMITTER_DATE="2026-01-01T00:01:00+0000" git tag "$@"; }

git init --quiet --initial-branch=master states
(
    cd states
    mkdir -p web/files salt/common "a folder"
    printf 'base:\n  "*":\n    - web\n' >top.sls
    echo 'web: {test.nop: []}' >web/init.sls
    echo 'first' >web/files/a.txt
    printf '#!/bin/sh\n' >web/files/run.sh
    chmod 755 web/files/run.sh
    printf 'one\ntwo\n' >web/files/lines.txt
    echo '*.txt text eol=crlf' >.gitattributes
    : >web/files/empty
    echo 'common: {test.nop: []}' >salt/common/init.sls
    echo 'x' >"a folder/größe.txt"
    ln -s a.txt web/files/link
    ln -s web web-link
    ln -s nowhere web/files/dangling
    ln -s ../../../../outside web/files/outward
    commit first
    at v1
    git checkout --quiet -b dev
    echo 'dev' >web/files/a.txt
    echo 'only' >only-dev.txt
    commit dev
    git checkout --quiet -b feature/x
    echo 'x' >web/files/a.txt
    rm web/files/lines.txt
    commit x
    git checkout --quiet -b release-1 master
    echo 'release' >web/files/a.txt
    commit release
    at --annotate --message release v2
    git update-ref refs/pull/7/head dev
    git checkout --quiet master
    echo 'second' >web/files/a.txt
    commit second
)
git init --quiet --initial-branch=main formula
(
    cd formula
    mkdir -p nginx
    echo 'nginx: {test.nop: []}' >nginx/init.sls
    echo 'top' >top.sls
    commit first
    at v1.0.0
    echo 'map' >nginx/map.jinja
    commit second
    git branch dev
)
git init --quiet --initial-branch=master pillar
(
    cd pillar
    mkdir -p deep/pillar
    printf 'base:\n  "*":\n    - common\n' >top.sls
    printf 'who: master\nlist: [1, 2]\nmap: {a: master, b: master}\n' >common.sls
    printf 'extra: master\n' >extra.sls
    printf 'base:\n  "*":\n    - inner\n' >deep/pillar/top.sls
    printf 'inner: {of: {{ grains.id }}}\n' >deep/pillar/inner.sls
    commit first
    at p1
    git checkout --quiet -b dev
    printf 'dev:\n  "*":\n    - common\n    - extra\n' >top.sls
    printf 'who: dev\nlist: [3]\nmap: {a: dev, c: dev}\n' >common.sls
    printf 'extra: dev\n' >extra.sls
    commit dev
    git checkout --quiet -b all master
    printf '{{ saltenv }}:\n  "*":\n    - common\n' >top.sls
    printf 'who: all\n' >common.sls
    commit all
    git checkout --quiet -b broken master
    printf 'base:\n  "*":\n    - missing\n' >top.sls
    commit broken
    git checkout --quiet master
)
git init --quiet --initial-branch=main site
(
    cd site
    mkdir -p nested
    printf 'base:\n  "*":\n    - local\n' >top.sls
    printf 'include:\n  - shared\nlocal: site\nwho: site\nlist: [9]\nmap: {b: site}\n' >local.sls
    printf 'shared: site\n' >shared.sls
    printf 'nested: site\n' >nested/init.sls
    commit first
    git checkout --quiet -b uses
    printf 'base:\n  "*":\n    - uses\n' >top.sls
    printf 'include:\n  - extra\nuses: site\n' >uses.sls
    commit uses
    git checkout --quiet -b mounted main
    printf 'base:\n  "*":\n    - mnt.shared\n    - mnt.nested\n' >top.sls
    commit mounted
    git checkout --quiet main
)
