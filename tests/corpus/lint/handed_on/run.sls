carl:
  module.run:
    - name: user.add
    - m_name: carl
    - user: root
