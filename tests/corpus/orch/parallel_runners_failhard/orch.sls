p:
  salt.parallel_runners:
    - runners:
        one:
          - name: nosuch.runner
    - failhard: True
b:
  salt.state:
    - tgt: '*'
    - sls: good
