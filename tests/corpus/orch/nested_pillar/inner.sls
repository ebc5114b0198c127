i:
  test.configurable_test_state:
    - name: {{ pillar.get('who', 'nobody') }}
    - result: True
    - changes: False
