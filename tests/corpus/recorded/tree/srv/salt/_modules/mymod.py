def true_test():
    return True

def false_test():
    return False

def raises():
    raise ValueError('boom')
