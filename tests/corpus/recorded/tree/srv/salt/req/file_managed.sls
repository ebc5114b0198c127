@TMP@/fm:
  file.managed:
    - contents: |
        one
        two
    - mode: '0640'
@TMP@/fd/sub:
  file.directory:
    - makedirs: True
@TMP@/fs:
  file.symlink:
    - target: @TMP@/fm
@TMP@/fa:
  file.append:
    - text: appended
    - require:
      - file: @TMP@/ft
@TMP@/ft:
  file.touch: []
@TMP@/fsrc:
  file.managed:
    - source: salt://files/tpl.jinja
    - template: jinja
    - context:
        who: world
@TMP@/gone:
  file.absent: []
