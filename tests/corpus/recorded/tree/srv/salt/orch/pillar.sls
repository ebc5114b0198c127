x:
  salt.state:
    - tgt: '*'
    - sls: show
    - pillar:
        key: from_orch
y:
  test.configurable_test_state:
    - name: {{ pillar.get('ov', 'none') }}
    - changes: False
    - result: True
    - comment: {{ pillar.get('ov', 'none') }}
