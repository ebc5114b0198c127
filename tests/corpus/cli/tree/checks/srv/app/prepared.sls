prepared:
  test.configurable_test_state:
    - comment: {{ pillar['name'] }} {{ pillar.get('data') }}
