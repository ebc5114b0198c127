p:
  salt.parallel_runners:
    - runners:
        one:
          - name: state.orchestrate
          - kwarg: {mods: inner_ok}
        two:
          - name: state.orchestrate
          - kwarg: {mods: inner_bad}
