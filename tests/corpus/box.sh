# box.sh: writes /tmp/box.tar, the files of an image with busybox.
image=$(mktemp -d)
chmod 755 "$image"
mkdir -p "$image/bin" "$image/tmp"
busybox=$(realpath "$(command -v busybox)")
for file in "$busybox" $(ldd "$busybox" 2>/dev/null | grep -o '/[^ ]*' || true); do
    mkdir -p "$image/${file%/*}"
    cp "$file" "$image/$file"
done
for applet in cat echo env false sh sleep true; do ln -s "$busybox" "$image/bin/$applet"; done
tar --directory="$image" --create --file=/tmp/box.tar .
