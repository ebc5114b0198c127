a:
  salt.runner:
    - name: pillar.show_pillar
    - minion: m1
