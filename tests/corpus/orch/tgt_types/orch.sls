a:
  salt.function:
    - name: test.ping
    - tgt: 'kernel:Linux'
    - tgt_type: grain
b:
  salt.function:
    - name: test.ping
    - tgt: 'm1,m2'
    - tgt_type: list
c:
  salt.function:
    - name: test.ping
    - tgt: [m1]
    - tgt_type: list
d:
  salt.function:
    - name: test.ping
    - tgt: 'm[12]'
    - tgt_type: pcre
e:
  salt.function:
    - name: test.ping
    - tgt: 'm1 and G@kernel:Linux'
    - tgt_type: compound
f:
  salt.function:
    - name: test.ping
    - tgt: '127.0.0.0/8'
    - tgt_type: ipcidr
g:
  salt.function:
    - name: test.ping
    - tgt: 'role:web'
    - tgt_type: pillar
