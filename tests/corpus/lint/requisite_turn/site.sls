unpack:
  cmd.run:
    - name: tar xf /root/site.tar -C /srv
    - compensate: remove
remove:
  cmd.run:
    - name: rm -r /srv/site
tell:
  cmd.run:
    - name: logger ready
    - require:
      - cmd: remove
self:
  test.nop:
    - compensate: self
nobody:
  test.nop:
    - compensate: nobody_here
end:
  test.nop:
    - finally: perhaps
