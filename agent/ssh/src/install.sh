# Copies the program @PROGRAM@ to its place on the host, and writes its configuration, which is the input. Prints the init system. All lines
# become one, without single quotes.
set -e; umask 022;
cp "@PROGRAM@" /usr/bin/.pinch.new; chmod 755 /usr/bin/.pinch.new; mv -f /usr/bin/.pinch.new /usr/bin/pinch;
mkdir -p /etc/salt/minion.d; (umask 077; cat > "@CONFIGURATION@.new"); mv -f "@CONFIGURATION@.new" "@CONFIGURATION@";
if [ -d /run/systemd/system ]; then echo pinch-init systemd; elif [ -x /sbin/openrc-run ]; then echo pinch-init openrc; fi
