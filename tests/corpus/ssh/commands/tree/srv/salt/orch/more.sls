tested:
  salt.state:
    - tgt: web1
    - ssh: True
    - sls: good
    - test: True
pillar:
  salt.state:
    - tgt: web1
    - ssh: True
    - sls: file
    - pillar: {file: ordered}
kwargs:
  salt.function:
    - name: cmd.run
    - arg: ['pwd; echo $X']
    - kwarg: {cwd: /tmp, env: {X: 'y'}}
    - tgt: web1
    - ssh: True
