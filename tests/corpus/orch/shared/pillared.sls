pillared:
  test.configurable_test_state:
    - name: {{ pillar.get('who', 'nobody') }}
    - result: True
    - changes: True
    - comment: hello {{ pillar.get('who', 'nobody') }}
