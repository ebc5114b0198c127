p:
  salt.parallel_runners:
    - runners:
        one:
          - name: state.orchestrate
          - kwarg: {mods: inner_a}
        two:
          - name: state.orchestrate
          - kwarg: {mods: inner_b}
