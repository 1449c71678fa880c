/* GnuTLS can take keys from PKCS#11 tokens, by p11-kit, which there is as a shared library only. zinc asks for no token: in
 * the programs of the tarball, which have GnuTLS within, p11-kit is one that has no modules and understands no URI
 * (its manual, "p11_kit_modules_load": NULL on failure). GnuTLS then says GNUTLS_E_PKCS11_LOAD_ERROR or that memory is short,
 * where it would be asked for one. */
#include <stddef.h>

#include <p11-kit/p11-kit.h>
#include <p11-kit/pin.h>
#include <p11-kit/uri.h>

#define NOTHING(type, name, params) type name params { return (type)0; }
#define ERROR(type, name, params, value) type name params { return value; }
#define NO_OP(name, params) void name params { }

NOTHING(CK_FUNCTION_LIST **, p11_kit_modules_load, (const char *reserved, int flags))
NOTHING(CK_FUNCTION_LIST *, p11_kit_module_load, (const char *path, int flags))
ERROR(CK_RV, p11_kit_module_finalize, (CK_FUNCTION_LIST *m), CKR_GENERAL_ERROR)
NO_OP(p11_kit_module_release, (CK_FUNCTION_LIST *m))
NOTHING(char *, p11_kit_module_get_name, (CK_FUNCTION_LIST *m))
NOTHING(int, p11_kit_module_get_flags, (CK_FUNCTION_LIST *m))
NOTHING(char *, p11_kit_config_option, (CK_FUNCTION_LIST *m, const char *option))
ERROR(const char *, p11_kit_strerror, (CK_RV rv), "built without PKCS#11")
ERROR(const char *, p11_kit_message, (void), "built without PKCS#11")
NOTHING(size_t, p11_kit_space_strlen, (const unsigned char *s, size_t most))
NOTHING(char *, p11_kit_space_strdup, (const unsigned char *s, size_t most))

NOTHING(P11KitPin *, p11_kit_pin_new_for_string, (const char *value))
NO_OP(p11_kit_pin_unref, (P11KitPin *pin))
NOTHING(const unsigned char *, p11_kit_pin_get_value, (P11KitPin *pin, size_t *length))
NOTHING(size_t, p11_kit_pin_get_length, (P11KitPin *pin))
NOTHING(int, p11_kit_pin_register_callback, (const char *source, p11_kit_pin_callback f, void *data, p11_kit_pin_destroy_func destroy))
NO_OP(p11_kit_pin_unregister_callback, (const char *source, p11_kit_pin_callback f, void *data))
NOTHING(P11KitPin *, p11_kit_pin_request, (const char *source, P11KitUri *uri, const char *description, P11KitPinFlags flags))
NOTHING(P11KitPin *, p11_kit_pin_file_callback, (const char *source, P11KitUri *uri, const char *description, P11KitPinFlags flags, void *data))

NOTHING(P11KitUri *, p11_kit_uri_new, (void))
NO_OP(p11_kit_uri_free, (P11KitUri *uri))
ERROR(int, p11_kit_uri_parse, (const char *s, P11KitUriType type, P11KitUri *uri), P11_KIT_URI_UNEXPECTED)
ERROR(int, p11_kit_uri_format, (P11KitUri *uri, P11KitUriType type, char **s), P11_KIT_URI_UNEXPECTED)
NOTHING(CK_INFO_PTR, p11_kit_uri_get_module_info, (P11KitUri *uri))
NOTHING(int, p11_kit_uri_match_module_info, (const P11KitUri *uri, const CK_INFO *info))
NOTHING(CK_TOKEN_INFO_PTR, p11_kit_uri_get_token_info, (P11KitUri *uri))
NOTHING(int, p11_kit_uri_match_token_info, (const P11KitUri *uri, const CK_TOKEN_INFO *info))
NOTHING(CK_ATTRIBUTE_PTR, p11_kit_uri_get_attribute, (P11KitUri *uri, CK_ATTRIBUTE_TYPE type))
NOTHING(CK_ATTRIBUTE_PTR, p11_kit_uri_get_attributes, (P11KitUri *uri, CK_ULONG *n))
ERROR(int, p11_kit_uri_set_attribute, (P11KitUri *uri, CK_ATTRIBUTE_PTR attr), P11_KIT_URI_UNEXPECTED)
NOTHING(const char *, p11_kit_uri_get_pin_value, (const P11KitUri *uri))
NOTHING(const char *, p11_kit_uri_get_pin_source, (const P11KitUri *uri))
