# Checks a password with PAM: python3 -I -c THIS SERVICE USER, with the password on the standard input.
# The exit code is 0 if authentication and the account's checks succeed, 1 if PAM refuses, and 2 if
# PAM cannot be used.
import ctypes
import ctypes.util
import sys

PROMPT_ECHO_OFF = 1


class Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


class Response(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("code", ctypes.c_int)]


Converse = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.POINTER(Message)),
    ctypes.POINTER(ctypes.POINTER(Response)),
    ctypes.c_void_p,
)


class Conversation(ctypes.Structure):
    _fields_ = [("converse", Converse), ("data", ctypes.c_void_p)]


def checked(pam, libc, service, user, password):
    @Converse
    def converse(count, messages, responses, _data):
        answers = libc.calloc(count, ctypes.sizeof(Response))
        if not answers:
            return 5
        responses[0] = ctypes.cast(answers, ctypes.POINTER(Response))
        for index in range(count):
            if messages[index].contents.style == PROMPT_ECHO_OFF:
                responses[0][index].text = libc.strdup(password)
        return 0

    handle = ctypes.c_void_p()
    talk = Conversation(converse, None)
    code = pam.pam_start(service, user, ctypes.byref(talk), ctypes.byref(handle))
    if code:
        return 2
    code = pam.pam_authenticate(handle, 0) or pam.pam_acct_mgmt(handle, 0)
    pam.pam_end(handle, code)
    return 1 if code else 0


def main():
    name = ctypes.util.find_library("pam") or "libpam.so.0"
    try:
        pam = ctypes.CDLL(name)
    except OSError:
        sys.exit(2)
    libc = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    libc.strdup.restype = ctypes.c_void_p
    libc.strdup.argtypes = [ctypes.c_char_p]
    pam.pam_start.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.POINTER(Conversation),
        ctypes.POINTER(ctypes.c_void_p),
    ]
    for function in (pam.pam_authenticate, pam.pam_acct_mgmt, pam.pam_end):
        function.argtypes = [ctypes.c_void_p, ctypes.c_int]
    service, user = (word.encode("utf-8", "surrogateescape") for word in sys.argv[1:3])
    sys.exit(checked(pam, libc, service, user, sys.stdin.buffer.read()))


main()
